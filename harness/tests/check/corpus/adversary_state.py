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
    Adversary(
        name="callback",
        reference=host_double,
        other=_called_back(lambda x: np.asarray(x) * 3),
        args=X,
        gradients=False,
        refuted=("check",),
    ),
    Adversary(
        name="memoised_callback",
        reference=host_double,
        other=_memoised,
        keeps_state=True,
        args={"x": normal(24, special=("-0.0",))},
        gradients=False,
        refuted=("check",),
    ),
    Adversary(
        name="noise_of_the_host",
        reference=host_double,
        other=_noisy,
        keeps_state=True,
        args=X,
        gradients=False,
        refuted=("check",),
    ),
    Adversary(
        name="every_second_call",
        reference=host_double,
        other=lambda: _every(2),
        keeps_state=True,
        args=X,
        gradients=False,
        refuted=("check",),
    ),
    Adversary(
        name="one_call_in_fifty",
        reference=host_double,
        other=lambda: _every(50),
        keeps_state=True,
        args=X,
        gradients=False,
        refuted=(),
    ),
    Adversary(
        name="remembered_constant",
        reference=twice,
        other=lambda: _memoised_by_shape({"first": np.ones(24, np.float32)}),
        keeps_state=True,
        args=X,
        refuted=(),
    ),
    Adversary(
        name="constant_not_yet_remembered",
        reference=twice,
        other=lambda: _memoised_by_shape({}),
        keeps_state=True,
        args=X,
        refuted=(),
    ),
)
