"""Bits are promised only where no rounded number decides which element stands at a place."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import pytest

from samebits.sizes.proofs.family import Family, Shaped
from samebits.sizes.proofs.family_proof import prove_all_sizes

ROWS = Family(
    symbols={"n": 1, "m": 1}, args={"x": Shaped(("n", "m")), "numbers": Shaped(("n",), "int32")}, differentiable=("x",)
)

Function = Callable[[Any, Any], Any]

ROUNDED: dict[str, Function] = {
    "the largest sum": lambda x, _: x[jnp.argmax(x.sum(1))],
    "a sum above 0": lambda x, _: jnp.where(x.sum() > 0, x, 0.0),
    "sorted by products": lambda x, _: x[jnp.argsort(x[:, 0] * 0.3)],
    "above 0.1 in bfloat16": lambda x, _: jnp.where(x.astype(jnp.bfloat16) > 0.1, x, 0.0),
    "a product as an index": lambda x, _: x[(x[:, 0] * 3).astype(jnp.int32)],
    "an unstable order": lambda x, _: x[jnp.argsort(x[:, 0], stable=False)],
}
EXACT: dict[str, Function] = {
    "the largest element": lambda x, _: x[jnp.argmax(x[:, 0])],
    "elements above 0": lambda x, _: jnp.where(x > 0, x, 0.0),
    "sorted by elements": lambda x, _: x[jnp.argsort(x[:, 0])],
    "sorted by whole numbers": lambda x, numbers: x[jnp.argsort(2 * numbers + 1)],
    "counted": lambda x, numbers: x[jnp.cumsum(numbers) - 1],
}


def _verdict(function: Function) -> str:
    (proof,) = prove_all_sizes(function, lambda x, numbers: function(x, numbers), ROWS)
    return proof.verdict


@pytest.mark.parametrize("name", ROUNDED)
def test_what_rounding_decides_is_the_same_formula(name: str) -> None:
    assert _verdict(ROUNDED[name]) == "rounding"


@pytest.mark.parametrize("name", EXACT)
def test_what_no_rounding_decides_is_proved(name: str) -> None:
    assert _verdict(EXACT[name]) == "proved"
