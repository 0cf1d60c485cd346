"""Maxima of numbers that float64 cannot tell apart: functions of their set; near ties where an index is asked for."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from samebits.errors import NearTie, NotCovered
from samebits.interpret.equation import Step, Type
from samebits.interpret.field import residues
from samebits.interpret.field.comparisons import best_of
from samebits.interpret.field.domain import Field
from samebits.interpret.field_proof.proof import FieldIdentity, identity
from tests.interpret.executed import asked

Function = Callable[..., Any]


def said(first: Function, second: Function, *args: Any) -> list[FieldIdentity]:
    return list(identity(asked(first, second, *args)).values())


def pair_of(difference: float) -> Any:
    return np.array([1.0, 3.0]), np.array([1.0 + difference, 2.0])


BEST: dict[str, tuple[Function, Function, Function]] = {
    "max": (jnp.maximum, lambda x, y: jnp.maximum(y, x), lambda x, y: jnp.maximum(x, 2 * y - x)),
    "reduce_min": (
        lambda x, y: jnp.stack([x, y, x + 1]).min(0),
        lambda x, y: jnp.stack([y, x + 1, x, y]).min(0),
        lambda x, y: jnp.stack([x, y - 1, x + 1]).min(0),
    ),
    "relu": (
        lambda x, y: jax.nn.relu(x - y),
        lambda x, y: jnp.maximum(0, -y + x),
        lambda x, y: jax.nn.relu(y - x),
    ),
    "a mask": (
        lambda x, y: jax.nn.softmax(jnp.stack([x, y, x + 5]) - np.array([1e9, 1e9, 0])[:, None], 0),
        lambda x, y: jnp.stack([0 * x, 0 * y, x / x]),
        lambda x, y: jnp.stack([0 * x, y / y, x * 0]),
    ),
    "a masked row": (
        lambda x, y: jax.nn.softmax(jnp.stack([x, y]) - 1e9, 0),
        lambda x, y: jax.nn.softmax(jnp.stack([x, y]), 0),
        lambda x, y: jax.nn.softmax(jnp.stack([x, 2 * y]), 0),
    ),
    "a softmax": (
        lambda x, y: jax.nn.softmax(jnp.stack([x, y]), 0),
        lambda x, y: jnp.exp(jnp.stack([x, y])) / (jnp.exp(x) + jnp.exp(y)),
        lambda x, y: jnp.exp(jnp.stack([x, y])) / (1 + jnp.exp(x)),
    ),
}


@pytest.mark.parametrize("difference", [0.0, 1e-13, 0.25])
@pytest.mark.parametrize("name", BEST)
def test_the_best_of_near_ties_is_a_function_of_their_set(name: str, difference: float) -> None:
    first, second, twin = BEST[name]
    with jax.enable_x64(True):
        assert said(first, second, *pair_of(difference))[0].equal
        assert not said(first, twin, *pair_of(difference))[0].equal


def test_which_of_near_ties_is_chosen_is_not_told() -> None:
    """The derivative of a maximum goes to the larger element, and an index names it."""
    function = jax.grad(lambda x, y: jnp.max(jnp.stack([x, y])))
    with jax.enable_x64(True), pytest.raises(NearTie):
        said(function, function, np.array(1.0), np.array(1.0 + 1e-13))


def test_near_ties_below_what_is_chosen_do_not_count() -> None:
    x = np.array([1.0, 1 + 1e-13, 2.0, 3.0])
    with jax.enable_x64(True):
        for function in (lambda x: x[jnp.argmax(x)], lambda x: lax.top_k(x, 2)[0], lambda x: -x[jnp.argmin(-x)]):
            assert said(function, function, x)[0].equal
        with pytest.raises(NearTie):
            said(lambda x: lax.top_k(x, 3)[0], lambda x: lax.top_k(x, 3)[0], x)
        with pytest.raises(NearTie):
            said(lambda x: x[jnp.argmin(x)], lambda x: x[jnp.argmin(x)], x)


def test_bfloat16_numbers_that_are_equal_do_not_end_a_proof() -> None:
    x = np.array([[1.5, 1.5, 0.25], [2.0, -1.0, 2.0]], jnp.bfloat16)
    wide = x.astype(np.float32)
    assert said(lambda x: jax.nn.softmax(x, -1), lambda x: jnp.exp(x) / jnp.exp(x).sum(-1, keepdims=True), wide)[
        0
    ].equal
    assert said(lambda x: jnp.max(x, -1), lambda x: jnp.max(x[:, ::-1], -1), wide)[0].equal
    assert not said(lambda x: jnp.max(x, -1), lambda x: jnp.max(x[:, :2], -1), wide)[0].equal


def test_a_nan_is_the_largest_of_its_row_alone() -> None:
    domain, kind = Field(), Type((2, 2), np.dtype(np.float32))
    step = Step("reduce_max", {"axes": (1,)}, (kind,), (Type((2,), kind.dtype),))
    rows = domain.input("x", np.array([[np.nan, 1.0], [3.0, 2.0]]), kind)
    assert np.array_equal(best_of(domain, step, rows, 1).shadow, [np.nan, 3.0], equal_nan=True)
    x = np.array([[0.5, np.nan], [1.0, 2.0]], np.float32)
    for of in (lambda x: jnp.max(x, 0), lambda x: jnp.maximum(x[0], x[1]), lambda x: jnp.minimum(x[1], x[0])):
        with pytest.raises(NotCovered, match="NaN"):
            said(of, of, x)
        first = lambda x, of=of: of(x)[:1]  # noqa: E731
        assert said(first, first, x)[0].equal


def test_a_set_that_forgets_an_element_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    right = residues.digest

    def blind(name: str, keys: Any, *rest: Any) -> Any:
        return np.zeros_like(keys[0]) if name == "one of a set" else right(name, keys, *rest)

    monkeypatch.setattr("samebits.interpret.field.residues.digest", blind)
    x = np.array([1.5, 1.5, 1.5], np.float32)
    assert said(lambda x: jnp.max(x), lambda x: jnp.max(x[:2]), x)[0].equal  # so that the test above can fail
