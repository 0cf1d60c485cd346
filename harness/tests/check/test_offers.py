"""A contract is offered to be tightened where nothing speaks against it: neither ties nor branches of other values."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import samebits
from samebits import Arg, Case, Contract, Pair

Sides = tuple[Callable[[Any], Any], Callable[[Any], Any]]
ROWS = slice(None, None, -1)
SLOW = pytest.mark.slow
pytestmark = pytest.mark.filterwarnings("ignore::samebits.OtherInputsWarning")


def _last(x: Any) -> Any:
    """`argmax`, of equal numbers the last."""
    return x.shape[-1] - 1 - jnp.argmax(x[:, ROWS], -1)


AT_TIES: dict[str, Sides] = {
    "argmax": (lambda x: jnp.argmax(x, -1) * 1.0, lambda x: _last(x) * 1.0),
    "top_k": (
        lambda x: jax.lax.top_k(x, 2)[1] * 1.0,
        lambda x: jnp.argsort(x, -1, stable=True)[:, ROWS][:, :2] * 1.0,
    ),
    "sort": (
        lambda x: jnp.argsort(x, -1, stable=True) * 1.0,
        lambda x: jnp.argsort(x[:, ROWS], -1, stable=True) * -1.0 + x.shape[-1] - 1,
    ),
    "one hot": (
        lambda x: jax.nn.one_hot(jnp.argmax(x, -1), x.shape[-1]),
        lambda x: (x == x.max(-1, keepdims=True)) * 1.0,
    ),
    "argmin": (
        lambda x: jnp.argmin(x, -1) * 1.0,
        lambda x: x.shape[-1] - 1.0 - jnp.argmin(x[:, ROWS], -1),
    ),
    "a threshold": (lambda x: jnp.where(x > 0.5, 1.0, 0.0), lambda x: jnp.where(x >= 0.5, 1.0, 0.0)),
    "a relu": (lambda x: jnp.maximum(x, 0), lambda x: jnp.where(x > 0, x, 0)),
    "a clip": (lambda x: jnp.clip(x, -9, 9), lambda x: jnp.maximum(jnp.minimum(x, 9), -8)),
}
EXACT: dict[str, Sides] = {
    "a sign": (lambda x: -x, lambda x: x * -1),
    "twice": (lambda x: x + x, lambda x: 2 * x),
    "a square": (lambda x: x * x, lambda x: -x * -x),
}


def _offers(sides: Sides) -> list[str]:
    pair = Pair(
        name="offered",
        reference=sides[0],
        variants={"variant": sides[1]},
        args={"x": Arg(shape=(4, 8))},
        cases=(Case(id="case"),),
        dtypes=("float32",),
        gradients=False,
        contracts=(Contract(lowest="rounding", reason="the sums in it are added in another order"),),
    )
    return [note for note in samebits.check(pair).notes if "tightened" in note]


@pytest.mark.parametrize("name", ["argmax", *(pytest.param(n, marks=SLOW) for n in list(AT_TIES)[1:])])
def test_nothing_is_offered_that_other_values_break(name: str) -> None:
    assert _offers(AT_TIES[name]) == []


@pytest.mark.parametrize("name", ["a sign", *(pytest.param(n, marks=SLOW) for n in list(EXACT)[1:])])
def test_what_is_exact_is_offered(name: str) -> None:
    assert len(_offers(EXACT[name])) == 1
