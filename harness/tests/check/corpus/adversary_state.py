"""Adversaries that call the host, or keep something from one call to the next."""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tests.check.corpus.adversary import Adversary, twice
from tests.check.corpus.formula import Function, normal

X = {"x": normal(24)}


def _called_back(function: Function) -> Function:
    def side(x: Any) -> Any:
        return jax.pure_callback(function, jax.ShapeDtypeStruct(x.shape, x.dtype), x)

    return side


def host_double(x: Any) -> Any:
    return _called_back(lambda x: np.asarray(x) * 2)(x)


def _memoised() -> Function:
    kept: dict[str, Any] = {}

    def once(x: Any) -> Any:
        return kept.setdefault("first", np.asarray(x) * 2)

    return _called_back(once)


def _memoised_by_shape(kept: dict[str, Any]) -> Function:
    """The result of the first call, as a constant of every later trace."""

    def side(x: Any) -> Any:
        if "first" not in kept:
            jax.debug.callback(lambda value: kept.__setitem__("first", np.asarray(value)), 2 * x)
            return 2 * x
        return 2 * x + 0 * jnp.asarray(kept["first"])

    return side


def _every(count: int) -> Function:
    """Another result at one call in `count`."""
    calls = itertools.count(1)
    return _called_back(lambda x: np.asarray(x) * (2 if next(calls) % count else 3))


def _noisy() -> Function:
    rng = np.random.default_rng(0)
    return _called_back(lambda x: np.asarray(x) * 2 + rng.standard_normal(x.shape).astype(np.float32) * 1e-3)


ALL = (
    Adversary("callback", host_double, _called_back(lambda x: np.asarray(x) * 3), X, ("check",), gradients=False),
    Adversary(
        "memoised_callback",
        host_double,
        _memoised,
        {"x": normal(24, special=("-0.0",))},
        ("check",),
        keeps_state=True,
        gradients=False,
    ),
    Adversary("noise_of_the_host", host_double, _noisy, X, ("check",), keeps_state=True, gradients=False),
    Adversary("every_second_call", host_double, lambda: _every(2), X, ("check",), keeps_state=True, gradients=False),
    Adversary("one_call_in_fifty", host_double, lambda: _every(50), X, (), keeps_state=True, gradients=False),
    Adversary(
        "remembered_constant",
        twice,
        lambda: _memoised_by_shape({"first": np.ones(24, np.float32)}),
        X,
        (),
        keeps_state=True,
    ),
    Adversary("constant_not_yet_remembered", twice, lambda: _memoised_by_shape({}), X, (), keeps_state=True),
)
