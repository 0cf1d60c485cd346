"""A variant whose outputs have another shape is different, and the others of its pair are judged all the same."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import pytest

import samebits
from samebits import Arg, Case, Pair

SHAPES: dict[str, Callable[[Any], Any]] = {
    "first axis": lambda x: x.T[None],
    "last axis": lambda x: x.T[..., None],
    "flat": lambda x: x.T.reshape(-1),
    "fewer": lambda x: x.T[:2],
    "more": lambda x: jnp.concatenate([x.T, x.T]),
}


@pytest.mark.parametrize("name", ["first axis", *(pytest.param(n, marks=pytest.mark.slow) for n in list(SHAPES)[1:])])
@pytest.mark.parametrize("door", [samebits.check, samebits.prove])
def test_the_other_variants_are_judged(name: str, door: Callable[..., Any]) -> None:
    """At points that a proof alone decides too: each gradient pulls back cotangents of its own shape."""
    pair = Pair(
        name="shapes",
        reference=lambda x: x.T,
        variants={"good": lambda x: jnp.swapaxes(x, 0, 1), "other": SHAPES[name], "last": lambda x: jnp.transpose(x)},
        args={"x": Arg(shape=("n", "n"), spec=("dp",))},
        cases=(Case(id="a", sizes={"n": 4}), Case(id="b", sizes={"n": 8})),
        dtypes=("float32", "bfloat16"),
        meshes=("none", "dp2"),
    )
    verdicts = {(leaf.place.variant, leaf.ruling.verdict) for leaf in door(pair).leaves}
    assert verdicts == {("<lambda>", "proved"), ("good", "proved"), ("last", "proved"), ("other", "different")}
