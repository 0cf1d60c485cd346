"""Outputs whose tree structure differs from the reference are different, whatever the proofs of the leaves say."""

from typing import Any

import jax.numpy as jnp
import pytest

from samebits.check.run_points import run_points
from samebits.programs.catalogue import Locator
from samebits.programs.plan import Request, plan
from samebits.programs.program_cache import Programs
from samebits.schema.case import Arg, Case
from samebits.schema.pair import Pair


@pytest.mark.parametrize("change", ["fewer", "more", "moved"])
def test_another_tree_of_outputs_is_a_difference(change: str) -> None:
    """Proofs hold leaves against each other by their place; another number of them once ended in an IndexError."""

    def plain(x: Any) -> Any:
        return {"a": x, "b": {"c": 2 * x, "d": jnp.int32(3)}, "e": x > 0}

    def other(x: Any) -> Any:
        tree = plain(x)
        if change == "more":
            return tree | {"c": x}
        last = tree["b"].pop("d")
        return tree | {"z": last} if change == "moved" else tree

    pair = Pair(
        name="trees",
        reference=plain,
        variants={"other": other},
        args={"x": Arg(shape=(4,))},
        cases=(Case(id="small"),),
        dtypes=("float32",),
        meshes=("data1",),
        modes=("auto",),
        gradients=False,
    )
    points = plan(pair, Request(variants=("other",)), 8).points
    results = list(run_points(pair, Locator(name="trees"), points, Programs()))
    assert [(one.place.leaf, one.ruling.verdict) for one in results] == [("out", "different")], results
    assert "structure" in str(results[0].ruling.evidence)
