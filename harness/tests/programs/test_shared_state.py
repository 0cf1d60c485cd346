"""State that several functions reach is as it was after each trace, and a cache is empty at its start."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

import samebits
from samebits.programs.shared_state import SharedState
from tests.support import sharing_sides

X = np.random.default_rng(0).normal(size=(8, 8)).astype(np.float32)


def test_what_a_trace_changes_is_put_back() -> None:
    kept: dict[str, Any] = {"a": [1], "b": {2}}
    cached = functools.lru_cache(lambda key: key)

    def side(key: str) -> Any:
        kept["a"].append(cached(key))
        kept["b"].add(3)
        kept[key] = 4

    cached("given")
    state = SharedState([side, lambda key: side(key)])
    with state.put_back():
        side("c")
        assert kept == {"a": [1, "c"], "b": {2, 3}, "c": 4}
    assert kept == {"a": [1], "b": {2}}
    assert cached.cache_info().currsize == 1, "the caller's is another one"
    assert {"kept", "cached"} <= set(state.changed)


def test_modules_in_common_are_nothing_shared() -> None:
    def doubled(x: jax.Array) -> Any:
        return jax.numpy.add(x, x)

    def side(function: Callable[..., Any]) -> Any:
        return lambda x: function(x)

    assert not SharedState([doubled, lambda x: jax.numpy.multiply(x, 2)]).is_shared
    assert SharedState([side(doubled), side(doubled)]).is_shared
    assert SharedState(sharing_sides.flag_of_module()).is_shared


def test_a_cache_that_is_filled_starts_empty() -> None:
    known, table = {1: 1}, {"scale": 2}

    def side(number: int) -> Any:
        known.setdefault(1, number)
        table["latest"] = number
        return known[1] * table["scale"]

    def traced() -> Any:
        try:
            return side(3)
        except KeyError:
            return None

    state = SharedState([side, lambda number: side(number)])
    state.drop_what_is_cached([traced])
    with state.put_back():
        assert side(3) == 6
    assert side(3) == 2


def test_state_is_as_it_was() -> None:
    """What the caller's own calls have stored is there afterwards, in the objects that held it."""
    masks: dict[int, Any] = {}
    known = functools.cache(lambda n: np.arange(n))

    def side(x: jax.Array) -> Any:
        masks.setdefault(x.shape[0], 1)
        return x * known(x.shape[0])

    jax.eval_shape(side, X)
    before = known(8)
    samebits.assert_same(side, lambda x: side(x), X)
    assert masks == {8: 1}
    assert known(8) is before
