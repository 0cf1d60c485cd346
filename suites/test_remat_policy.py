"""A recomputed stack of layers, and what its policy keeps: other bytes, the same values.

Measured on CPU (jax 0.10.2, 8 devices). A policy shows in no value, and one whose names occur nowhere is taken without a
word (MaxText issue 4990). So `KEPT` declares what the way back holds on to, beside the arguments, side by side, and
tests hold the traced programs against it; edits that are wrong in the policy alone are seen by those tests.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness import Arg, Case, Contract, Normal, Pair, RealSize, Refusal, compile_test, implementation, pair_test

BATCH = ("data", "fsdp")
SIZES = {"iterations": 2, "layers": 2, "tokens": 8, "embed": 4, "mlp": 6, "columns": 4}
FINITE = "no sum of squares overflows"


def _case(
    name: str, mesh: str, mode: Any, *variants: str, dtype: str = "float32", sizes: Any = None, **more: Any
) -> Case:
    return Case(
        id=name,
        sizes={**SIZES, **(sizes or {})},
        statics={"scanned": name != "written_out"},
        dtypes=(dtype,),
        meshes=(mesh,),
        modes=(mode,),
        variants=variants or None,
        **more,
    )


def _real(name: str, iterations: int, layers: int, variants: Any, claims: Any) -> RealSize:
    sizes = {"iterations": iterations, "layers": layers, "tokens": 16384, "embed": 2048, "mlp": 4096, "columns": 2048}
    return RealSize(
        case=Case(id=name, sizes=sizes, variants=variants),
        layout="fsdp*",
        dtype="bfloat16",
        targets=("cpu", "v5p:2x2x1", "tpu7x:2x2x1"),
        claims=claims,
    )


_COMPILED = (
    _real("four_layers", 8, 4, None, ()),
    _real("one_layer", 32, 1, ("iteration_input_only",), ()),
)

PAIR = Pair(
    name="remat_policy",
    reference="both_names",
    variants=("iteration_input_only", "offloaded", "nothing_saved", "everything_saved"),
    args={
        "x": Arg(shape=("iterations", "tokens", "embed"), spec=(None, BATCH)),
        "scale": Arg(shape=("iterations", "layers", "embed"), values=Normal(scale=0.1, offset=1.0)),
        "up": Arg(shape=("iterations", "layers", "embed", "mlp"), values=Normal(scale=0.5)),
        "down": Arg(shape=("iterations", "layers", "mlp", "columns"), values=Normal(scale=0.5)),
    },
    cases=(
        _case("scanned", "data1", "explicit", "iteration_input_only", "offloaded"),
        _case("written_out", "data1", "auto", "nothing_saved", "everything_saved", sizes={"layers": 1}),
        _case("split", "fsdp2", "auto", "offloaded", dtype="bfloat16", sizes={"layers": 1}),
        _case(
            "uneven",
            "data1",
            "auto",
            sizes={"columns": 3},
            refuses=(
                Refusal(error="ValueError", match=r"shapes \(2, 8, 4\), \(2, 2, 4\), \(2, 2, 4, 6\) and \(2, 2, 6, 3"),
            ),
        ),
    ),
    dtypes=("float32", "bfloat16"),
    meshes=("data1", "fsdp2"),
    out_spec={"out": (BATCH,)},
    compiled=_COMPILED,
    contracts=(Contract(domain=FINITE),),
)

test_remat_policy = pair_test(PAIR)
test_compiled = pytest.mark.slow(compile_test(PAIR))

SIDES = pytest.mark.parametrize("side", PAIR.sides)
NAMES = ["decoder_layer_input", "iteration_input"]
_LAYERS, _ITERATIONS, _FEED = "float32[2,{},8,4]", "float32[2,8,4]", "float32[2,8,4]"

KEPT: dict[str, list[str]] = {}


def _shapes(layers: int) -> tuple[tuple[int, ...], ...]:
    return (2, 8, 4), (2, layers, 4), (2, layers, 4, 6), (2, layers, 6, 4)


def _kept(function: Callable[..., Any], layers: int = 2, scanned: bool = True) -> list[str]:
    """What the pull-back holds, by type and memory, but the arguments themselves."""
    import jax

    given = [jax.ShapeDtypeStruct(shape, "float32") for shape in _shapes(layers)]
    program = jax.make_jaxpr(lambda *arrays: jax.vjp(functools.partial(function, scanned=scanned), *arrays)[1])(*given)
    inputs = set(map(id, program.jaxpr.invars))
    return sorted(str(out.aval) for out in program.jaxpr.outvars if id(out) not in inputs)


def test_show() -> None:
    import jax

    for side in PAIR.sides:
        for scanned in (True, False):
            for layers in (2, 1):
                print(side, scanned, layers, _kept(implementation(PAIR, side), layers, scanned))
            f = functools.partial(implementation(PAIR, side), scanned=scanned)
            arrays = [np.ones(s, np.float32) for s in _shapes(2)]
            t = jax.jit(jax.grad(lambda *a: f(*a).sum(), argnums=(0, 1, 2, 3))).lower(*arrays).as_text()
            print("barriers", t.count("optimization_barrier"))
    assert 0
