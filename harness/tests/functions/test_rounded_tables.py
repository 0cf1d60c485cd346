"""Constants that only one side rounds: tables of a transform, and constants of the other sign."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import samebits

Side = Callable[..., Any]
COUNT = 16
X = jax.ShapeDtypeStruct((4, COUNT), jnp.float32)
SHORT = jax.ShapeDtypeStruct((8, 16), jnp.bfloat16)
ROOTS = np.exp(-2j * np.pi * np.outer(np.arange(COUNT), np.arange(COUNT)) / COUNT)


def transform(x: Any) -> Any:
    y = jnp.fft.fft(x)
    return jnp.stack([y.real, y.imag])


def by_tables(roots: Any = ROOTS) -> Side:
    cosines, sines = roots.real.astype(np.float32), roots.imag.astype(np.float32)
    return lambda x: jnp.stack([x @ cosines, x @ sines])


def by_complex_table(roots: Any = ROOTS) -> Side:
    def product(x: Any) -> Any:
        y = x @ roots.astype(np.complex64)
        return jnp.stack([y.real, y.imag])

    return product


def moved(place: tuple[int, int], by: complex) -> Any:
    roots = ROOTS.copy()
    roots[place] += by
    return roots


def wide_gelu(x: Any, factor: float = 1.0) -> Any:
    wide = x.astype(jnp.float32)
    return (0.5 * wide * (1 + jax.lax.erf(wide * np.float32(factor * np.sqrt(0.5))))).astype(x.dtype)


def gelu(x: Any) -> Any:
    return jax.nn.gelu(x, approximate=False)


def bent(x: Any) -> Any:
    return jnp.where(x > 0.75, x * 0.044715, -x * 0.044715)


def bent_in_float32(x: Any) -> Any:
    """The factor is rounded to float32 here, and to bfloat16 there: no difference, at ties of the condition either."""
    wide, factor = x.astype(jnp.float32), np.float32(0.044715)
    return jnp.where(wide > 0.75, wide * factor, -wide * factor).astype(x.dtype)


HONEST: dict[str, tuple[Side, Side, Any, bool]] = {
    "tables": (transform, by_tables(), X, False),
    "tables, with gradients": (transform, by_tables(), X, True),
    "a complex table": (transform, by_complex_table(), X, True),
    "a GELU in float32": (gelu, wide_gelu, SHORT, True),
    "a factor beside a tie": (bent, bent_in_float32, SHORT, False),
}


@pytest.mark.parametrize(
    "rewrite",
    [
        each
        if each in ("tables", "a GELU in float32", "a factor beside a tie")
        else pytest.param(each, marks=pytest.mark.slow)
        for each in HONEST
    ],
)
def test_the_rounding_of_a_table_is_rounding(rewrite: str) -> None:
    reference, variant, x, gradients = HONEST[rewrite]
    compared = samebits.check(reference, variant, x, gradients=gradients)
    assert compared.verdict == "rounding", compared.failure()


FAULTS: dict[str, tuple[Side, Side, Any]] = {
    "a factor": (transform, lambda x: by_tables()(x) * 1.0001, X),
    "an entry": (transform, by_tables(moved((3, 5), 1e-4)), X),
    "a zero": (transform, by_tables(moved((4, 8), 1e-5)), X),
    "the other direction": (transform, by_tables(ROOTS.conj()), X),
    "a row late": (transform, by_tables(np.roll(ROOTS, 1, 0)), X),
    "a complex entry": (transform, by_complex_table(moved((3, 5), 1e-4j)), X),
    "a GELU by tanh": (lambda x: jax.nn.gelu(x, approximate=True), wide_gelu, SHORT),
    "a root of 0.51": (gelu, lambda x: wide_gelu(x, 1.01), SHORT),
    "the other sign": (gelu, lambda x: -wide_gelu(-x), SHORT),
}


@pytest.mark.parametrize(
    "fault",
    [each if each in ("an entry", "a root of 0.51") else pytest.param(each, marks=pytest.mark.slow) for each in FAULTS],
)
def test_no_rounding_is_another_table(fault: str) -> None:
    reference, variant, x = FAULTS[fault]
    assert samebits.check(reference, variant, x, gradients=False).verdict == "different"
