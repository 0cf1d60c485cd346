"""Fourier transforms: what jax computes, identities of formulas, and twins that differ."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from samebits.interpret import complex_pairs, composite_primitives
from tests.interpret.executed import check, compared

Function = Callable[..., Any]

RNG = np.random.default_rng(27)
FFT = jnp.fft


def x(length: int) -> Any:
    return RNG.normal(size=(2, length)).astype(np.float32)


def parts(value: Any) -> Any:
    return jnp.stack([jnp.real(value), jnp.imag(value)])


def z(x: Any) -> Any:
    return lax.complex(x, jnp.roll(x, 1) ** 2)


EXECUTED: dict[str, Function] = {
    "fft": lambda x: parts(FFT.fft(z(x))),
    "ifft": lambda x: parts(FFT.ifft(z(x))),
    "rfft": lambda x: parts(FFT.rfft(x)),
    "irfft, even": lambda x: FFT.irfft(z(x), n=2 * x.shape[-1] - 2),
    "irfft, odd": lambda x: FFT.irfft(z(x), n=2 * x.shape[-1] - 1),
    "fft2": lambda x: parts(FFT.fft2(z(x))),
    "rfft2": lambda x: parts(FFT.rfft2(x)),
    "irfft2": lambda x: FFT.irfft2(z(x)),
    "the gradient of fft": jax.grad(lambda x: jnp.abs(FFT.fft(z(x))).sum()),
    "the gradient of rfft": jax.grad(lambda x: jnp.abs(FFT.rfft(x)).sum()),
    "the gradient of irfft": jax.grad(lambda x: (FFT.irfft(z(x)) ** 3).sum()),
}


@pytest.mark.sampled(8)
@pytest.mark.parametrize("length", [2, 5, 8, 12])
@pytest.mark.parametrize("name", EXECUTED)
def test_the_interpreter_computes_what_jax_does(name: str, length: int) -> None:
    check(EXECUTED[name], x(length).astype(np.float64))


def circular(a: Any, b: Any) -> Any:
    """A circular convolution by its definition."""
    n = a.shape[-1]
    return jnp.stack([sum(a[:, j] * b[:, (k - j) % n] for j in range(n)) for k in range(n)], -1)


EQUAL: dict[str, tuple[Function, Function]] = {
    "there and back": (lambda x: parts(FFT.ifft(FFT.fft(z(x)))), lambda x: parts(z(x))),
    "real, there and back": (lambda x: FFT.irfft(FFT.rfft(x)), lambda x: x),
    "half of a whole": (lambda x: parts(FFT.rfft(x)), lambda x: parts(FFT.fft(x)[:, : x.shape[-1] // 2 + 1])),
    "a convolution": (lambda x: FFT.irfft(FFT.rfft(x) * FFT.rfft(x[::-1])), lambda x: circular(x, x[::-1])),
    "Parseval": (lambda x: jnp.sum(jnp.abs(FFT.fft(x)) ** 2) / x.shape[-1], lambda x: jnp.sum(x * x)),
    "a sum of two": (lambda x: parts(FFT.fft(x + x[::-1])), lambda x: parts(FFT.fft(x) + FFT.fft(x[::-1]))),
}

DIFFERENT: dict[str, tuple[Function, Function]] = {
    "the other direction": (lambda x: parts(FFT.fft(x)), lambda x: parts(FFT.ifft(x) * x.shape[-1])),
    "without the scale": (lambda x: FFT.irfft(FFT.rfft(x)), lambda x: FFT.irfft(FFT.rfft(x), norm="forward")),
    "one place further": (lambda x: parts(FFT.fft(x)), lambda x: parts(FFT.fft(jnp.roll(x, 1, -1)))),
    "the other axis": (lambda x: parts(FFT.fft(x[:, :2])), lambda x: parts(FFT.fft(x[:, :2], axis=0))),
}


@pytest.mark.parametrize("length", [4, 8, 12])
@pytest.mark.parametrize("name", EQUAL)
def test_equal_formulas_are_proved_where_angles_are_known(name: str, length: int) -> None:
    assert compared(*EQUAL[name], x(length)) == "equal"


@pytest.mark.parametrize("name", EQUAL)
def test_equal_formulas_are_never_different(name: str) -> None:
    assert compared(*EQUAL[name], x(10)) in ("equal", "undecided")


@pytest.mark.parametrize("length", [4, 10])
@pytest.mark.parametrize("name", DIFFERENT)
def test_their_unequal_twins_are_different(name: str, length: int) -> None:
    assert compared(*DIFFERENT[name], x(length)) == "different"


def test_a_table_of_the_wrong_angles_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    right = complex_pairs._tables
    monkeypatch.setattr(complex_pairs, "_tables", lambda products, length: right(products + 1, length))
    composite_primitives._traced.cache_clear()
    try:
        with pytest.raises(AssertionError, match="output 0"):
            check(EXECUTED["fft"], x(4).astype(np.float64))
    finally:
        composite_primitives._traced.cache_clear()
