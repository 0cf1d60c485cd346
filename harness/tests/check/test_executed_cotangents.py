"""Gradients that cannot be interpreted, executed at other cotangents."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.sharding import PartitionSpec as P

import samebits
from samebits.interpret import control_flow


@pytest.fixture(autouse=True)
def no_kernel_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels stand for what cannot be interpreted: those that copy between devices, for one."""
    monkeypatch.delitem(control_flow.CONTROL, "pallas_call")


def double(x: Any) -> Any:
    return 2 * x


def with_rule(rule: Callable[[Any], Any]) -> Callable[..., Any]:
    @jax.custom_vjp
    def function(x: Any) -> Any:
        return 2 * x

    function.defvjp(lambda x: (2 * x, None), lambda _, g: (rule(g),))
    return lambda x: function(x)


def called_back(change: Callable[[Any], Any]) -> Callable[..., Any]:
    return with_rule(lambda g: jax.pure_callback(lambda a: np.asarray(change(np.asarray(a)), a.dtype), g, g))


def in_kernel(change: Callable[[Any], Any]) -> Callable[..., Any]:
    def kernel(given: Any, result: Any) -> None:
        result[...] = change(given[...])

    def rule(g: Any) -> Any:
        return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(g.shape, g.dtype), interpret=True)(g)

    return with_rule(rule)


WRONG = {
    "kernel clips": in_kernel(lambda g: jax.numpy.clip(2 * g, -50, 50)),
    "clip": called_back(lambda g: np.clip(2 * g, -50, 50)),
    "large clip": called_back(lambda g: np.clip(2 * g, -1e5, 1e5)),
    "window": called_back(lambda g: np.where(np.abs(g) < 50, 2 * g, 0)),
    "flushed": called_back(lambda g: np.where(np.abs(g) < 1e-7, 0, 2 * g)),
    "last row": called_back(lambda g: 2 * g * (np.abs(g[:-1]).sum() > 1e-3)),
    "zeros": called_back(lambda g: 2 * g + (not g.any())),
    "norm": called_back(lambda g: 2 * g * np.minimum(1, 1000 / np.maximum(np.sqrt((g * g).sum()), 1e-9))),
}
HONEST = {
    "kernel": in_kernel(lambda g: 2 * g),
    "callback": called_back(lambda g: 2 * g),
    "rejects zeros": called_back(lambda g: 2 * g / g.any().astype(g.dtype)),
}
FAST = ("clip", "callback")


def _cases(table: dict[str, Any]) -> list[Any]:
    return [pytest.param(case, id=name, marks=() if name in FAST else pytest.mark.slow) for name, case in table.items()]


@pytest.mark.parametrize("variant", _cases(WRONG))
def test_what_decides_by_cotangents_is_executed(variant: Any) -> None:
    compared = samebits.check(double, variant, jax.ShapeDtypeStruct((4, 6), np.float32))
    assert compared.verdict == "different", compared


@pytest.mark.parametrize("variant", _cases(HONEST))
@pytest.mark.parametrize("dtype", ["float32", pytest.param("bfloat16", marks=pytest.mark.slow)])
def test_what_only_rounds_passes(variant: Any, dtype: str) -> None:
    samebits.assert_same(double, variant, jax.ShapeDtypeStruct((4, 6), dtype))


def test_the_witness_is_of_these_cotangents() -> None:
    compared = samebits.check(double, WRONG["clip"], jax.ShapeDtypeStruct((4, 6), np.float32))
    assert "executed with cotangents 64 times as large, x[" in compared.failure()
    assert "in 'double' and -50 in 'variant'" in compared.failure()


@pytest.mark.slow
@pytest.mark.parametrize("limit", [50.0, 1e30])
def test_on_a_mesh(limit: float) -> None:
    variant = in_kernel(lambda g: jax.numpy.clip(2 * g, -limit, limit))
    compared = samebits.check(double, variant, jax.ShapeDtypeStruct((4, 6), np.float32), mesh="dp2", specs=P("dp"))
    assert compared.ok == (limit > 1e20), compared
