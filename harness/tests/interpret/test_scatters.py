"""Scatters that multiply or compare: what jax computes, identities of formulas, and twins that differ."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from samebits.errors import BrokenPromise
from samebits.interpret import composite_primitives, windows
from tests.interpret.executed import check, compared

Function = Callable[..., Any]

RNG = np.random.default_rng(23)
X, Y = (RNG.normal(size=(4, 3)).astype(np.float32) for _ in range(2))
TWICE, ONCE = np.array([0, 2, 0, 0], np.int32), np.array([3, 1, 0, 2], np.int32)

EXECUTED: dict[str, Function] = {
    "scatter-mul": lambda x, y: x.at[TWICE].multiply(y),
    "scatter-max": lambda x, y: x.at[TWICE].max(y),
    "scatter-min": lambda x, y: x.at[TWICE, 1].min(y[:, 0]),
    "beyond the end": lambda x, y: x.at[np.array([0, 9, 1, 0], np.int32)].multiply(y, mode="drop"),
    "a gradient": jax.grad(lambda x, y: jnp.sum(jnp.sin(x.at[ONCE].multiply(y, unique_indices=True))), (0, 1)),
}

EQUAL: dict[str, tuple[Function, Function]] = {
    "products": (lambda x, y: x.at[ONCE].multiply(y), lambda x, y: x * y[np.argsort(ONCE)]),
    "several updates": (
        lambda x, y: x.at[TWICE].multiply(y),
        lambda x, y: jnp.stack([x[0] * y[3] * y[0] * y[2], x[1], y[1] * x[2], x[3]]),
    ),
    "the largest": (lambda x, y: x.at[ONCE].max(y), lambda x, y: jnp.maximum(y[np.argsort(ONCE)], x)),
}

DIFFERENT: dict[str, tuple[Function, Function]] = {
    "other places": (lambda x, y: x.at[ONCE].multiply(y), lambda x, y: x.at[ONCE[::-1]].multiply(y)),
    "one update less": (lambda x, y: x.at[TWICE].multiply(y), lambda x, y: x.at[TWICE[:3]].multiply(y[:3])),
    "the smallest": (lambda x, y: x.at[ONCE].max(y), lambda x, y: x.at[ONCE].min(y)),
}


@pytest.mark.parametrize("name", EXECUTED)
def test_the_interpreter_computes_what_jax_does(name: str) -> None:
    check(EXECUTED[name], X.astype(np.float64), Y.astype(np.float64))


@pytest.mark.parametrize("name", EQUAL)
def test_equal_formulas_are_proved(name: str) -> None:
    assert compared(*EQUAL[name], X, Y) == "equal"


@pytest.mark.parametrize("name", DIFFERENT)
def test_their_unequal_twins_are_different(name: str) -> None:
    assert compared(*DIFFERENT[name], X, Y) == "different"


def test_a_scatter_that_forgets_equal_places_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    right = windows.of_scatter

    def first_only(step: Any, indices: Any) -> Any:
        targets, inside = right(step, indices)
        seen = np.unique(targets, return_index=True)[1]
        return targets, inside & np.isin(np.arange(targets.size).reshape(targets.shape), seen)

    assert "scatter-mul" in composite_primitives.AS_FORMULAS
    monkeypatch.setattr(windows, "of_scatter", first_only)
    with pytest.raises(AssertionError, match="output 0"):
        check(EXECUTED["scatter-mul"], X.astype(np.float64), Y.astype(np.float64))


def _dispatched(x: Any, at: Any, **options: Any) -> Any:
    """Rows in buffers of three, without those beyond, as at the capacity of an expert."""
    return jnp.sum(jnp.sin(jnp.zeros((3, x.shape[1]), x.dtype).at[at].set(x, **options) * 2))


@pytest.mark.parametrize("mode", ["drop", None])
def test_rows_that_a_scatter_drops_have_a_gradient(mode: str | None) -> None:
    """A rule of jax reads at the indices of what is dropped, and promises that they are in range."""
    x, at = np.arange(10.0).reshape(5, 2), np.array([0, 4, 2, 3, 1])
    check(jax.grad(lambda x: _dispatched(x, at, mode=mode)), x)


def test_a_promise_of_the_user_that_is_broken_is_undefined_still() -> None:
    x, at = np.arange(10.0).reshape(5, 2), np.array([0, 4, 2, 3, 1])
    with pytest.raises(BrokenPromise, match="although it is promised to be in range"):
        check(jax.grad(lambda x: _dispatched(x, at, mode="promise_in_bounds")), x)


def test_a_user_function_of_that_name_is_held_to_its_promise() -> None:
    def _scatter_jvp(x: Any) -> Any:
        return x.at[np.array([0, 9])].get(mode="promise_in_bounds")

    with pytest.raises(BrokenPromise, match="although it is promised to be in range"):
        check(_scatter_jvp, np.arange(4.0))
