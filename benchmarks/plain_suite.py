"""The way it is done today, for `sweep.py`: one parametrised pytest test per case that jits both sides and asserts.

The same points as the sweep in any order, until the time is up; the same inputs; reference on one device, variant on
the mesh; NumPy's exact assert, and `assert_allclose` for gradients and for pairs that round.
Run by `sweep.py` through pytest, never collected by the project's own test command.
"""

from __future__ import annotations

import json
import os
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from samebits import Pair, implementation
from samebits.host import environment
from samebits.programs.catalogue import Locator, load
from samebits.programs.inputs import cotangent, differentiable, records
from samebits.programs.placement import place
from samebits.schema.meshes import MeshSpec
from samebits.schema.point import Point

environment.prepare()
ENTRIES = json.loads(Path(os.environ["SAMEBITS_BENCHMARK_POINTS"]).read_text(encoding="utf-8"))
POINTS = [(entry["pair"], Point(**entry["point"])) for entry in ENTRIES]
UNTIL = float(os.environ["SAMEBITS_BENCHMARK_UNTIL"])
PAIRS: dict[str, Pair] = {}


@pytest.mark.parametrize(("name", "point"), POINTS, ids=lambda value: str(value))
def test_same(name: str, point: Point) -> None:
    """Both sides jitted and compared, as most projects write it."""
    if time.time() > UNTIL:
        pytest.skip("the time of this benchmark is up")
    import jax
    import jax.numpy as jnp

    pair = PAIRS.setdefault(name, load(Locator(name=name)))
    case, mesh = pair.case(point.case), MeshSpec.parse(point.mesh)
    args, statics = pair.arguments(case, mesh), pair.statics(case, mesh)
    record = records(pair, case, point.dtype, mesh)["ordinary"]
    built = mesh.build(point.mode)
    names = differentiable(args, point.dtype)

    def run(side: str, placed: dict[str, Any]) -> Any:
        function = jax.jit(partial(implementation(pair, side), **statics))
        if point.direction == "forward":
            return function(**placed)
        rest = {key: value for key, value in placed.items() if key not in names}
        out, pull = jax.vjp(lambda chosen: function(**chosen, **rest), {key: placed[key] for key in names})
        seeds = jax.tree.map(
            lambda leaf: (
                jnp.asarray(cotangent("random", leaf.shape, leaf.dtype, name))
                if jnp.issubdtype(leaf.dtype, jnp.inexact)
                else np.zeros(leaf.shape, jax.dtypes.float0)
            ),
            out,
        )
        if point.mode == "explicit" and side != pair.reference_name:
            seeds = jax.tree.map(
                lambda seed, leaf: (
                    jax.device_put(seed, leaf.sharding) if jnp.issubdtype(leaf.dtype, jnp.inexact) else seed
                ),
                seeds,
                out,
            )
        return pull(seeds)[0]

    expected = run(pair.reference_name, place(record, args, mesh, None))
    with jax.set_mesh(built):
        found = run(point.variant, place(record, args, mesh, built))
    for left, right in zip(jax.tree.leaves(expected), jax.tree.leaves(found), strict=True):
        if point.direction == "forward" and "rounding" not in {c.lowest for c in pair.contracts}:
            np.testing.assert_array_equal(np.asarray(left), np.asarray(right))
        else:
            # Here only the time of an assert counts: the pairs that round are judged by `samebits check`, not by this.
            np.testing.assert_allclose(np.asarray(left, np.float64), np.asarray(right, np.float64), rtol=1, atol=10)
