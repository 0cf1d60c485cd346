"""Arguments of complex dtypes, with gradients, and of dtypes narrower than a byte."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import samebits

Function = Callable[..., Any]


def _rotated(x: Any, turns: Any) -> Any:
    turned = jax.lax.complex(x[..., ::2], x[..., 1::2]) * turns
    return jnp.stack([turned.real, turned.imag], -1).reshape(x.shape)


def _by_parts(x: Any, turns: Any, sign: float = 1.0) -> Any:
    even, odd = x[..., ::2], x[..., 1::2]
    turned = even * turns.real - sign * odd * turns.imag, sign * even * turns.imag + odd * turns.real
    return jnp.stack(turned, -1).reshape(x.shape)


@jax.custom_vjp
def _conjugated_pull(x: Any, turns: Any) -> Any:
    """The mistake of who knows the conjugate from papers: the cotangents of jax are not conjugated."""
    return x * turns


_conjugated_pull.defvjp(lambda x, t: (x * t, (x, t)), lambda kept, c: (c * kept[1].conj(), c * kept[0].conj()))


@jax.custom_vjp
def _right_pull(x: Any, turns: Any) -> Any:
    return x * turns


_right_pull.defvjp(lambda x, t: (x * t, (x, t)), lambda kept, c: (c * kept[1], c * kept[0]))


def _quantised(x: Any, weight: Any, scale: Any) -> Any:
    return (x @ weight.astype(x.dtype)) * scale


def _scaled_first(x: Any, weight: Any, scale: Any) -> Any:
    return x @ (weight.astype(x.dtype) * scale)


def _shape(dtype: str, *shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.dtype(dtype))


def _verdicts(reference: Function, variant: Function, *args: Any, **options: Any) -> dict[tuple[str, str], str]:
    compared = samebits.check(reference, variant, *args, **options)
    return {
        (leaf.place.direction, leaf.place.leaf): leaf.ruling.verdict
        for leaf in compared.leaves
        if leaf.place.variant != "(reference)"
    }


@pytest.mark.sampled(1)
@pytest.mark.parametrize("mesh", [None, "fsdp8"])
def test_gradients_of_complex_arguments_are_compared(mesh: str | None) -> None:
    args = _shape("float32", 8, 16), _shape("complex64", 8, 8)
    honest = samebits.check(_rotated, _by_parts, *args, mesh=mesh)
    assert honest.ok
    assert ("gradient", "turns") in {(leaf.place.direction, leaf.place.leaf) for leaf in honest.leaves}
    wrong = _verdicts(_rotated, lambda x, t: _by_parts(x, jax.lax.stop_gradient(t)), *args, mesh=mesh)
    assert wrong["gradient", "turns"] == "different"
    assert "different" not in (wrong["forward", "out"], wrong["gradient", "x"])
    assert set(_verdicts(_rotated, lambda x, t: _by_parts(x, t, -1.0), *args, mesh=mesh).values()) == {"different"}


def test_a_conjugate_too_many_in_a_gradient_is_different() -> None:
    args = _shape("complex64", 4, 8), _shape("complex64", 4, 8)
    assert samebits.check(jnp.multiply, _right_pull, *args).ok
    wrong = _verdicts(jnp.multiply, _conjugated_pull, *args)
    assert wrong["gradient", "x"] == wrong["gradient", "turns"] == "different"
    assert wrong["forward", "out"] != "different"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("dtype", ["int4", "uint4", "float4_e2m1fn"])
def test_weights_narrower_than_a_byte(dtype: str) -> None:
    args = _shape("float32", 8, 16), _shape(dtype, 16, 8), _shape("float32", 8)
    assert samebits.check(_quantised, _scaled_first, *args, mesh="fsdp2").ok
    shifted = lambda x, w, s: _quantised(x, w, s + w[0].astype(s.dtype))  # noqa: E731
    assert set(_verdicts(_quantised, shifted, *args, mesh="fsdp2", gradients=False).values()) == {"different"}


def _quotient(z: Any, w: Any) -> Any:
    return z / w


def _by_conjugate(z: Any, w: Any, sign: float = 1.0) -> Any:
    return z * jax.lax.complex(w.real, -sign * w.imag) / (w.real**2 + w.imag**2)


def _unit(z: Any, w: Any) -> Any:
    return z / jnp.linalg.norm(z + w)


def _unit_by_root(z: Any, w: Any, epsilon: float = 0.0) -> Any:
    return z * jax.lax.rsqrt(jnp.sum(jnp.abs(z + w) ** 2) + epsilon)


def _convolved(z: Any, w: Any) -> Any:
    return jnp.fft.ifft(jnp.fft.fft(z) * jnp.fft.fft(w))


def _convolved_by_sums(z: Any, w: Any, turn: int = 0) -> Any:
    n = z.shape[-1]
    return jnp.stack([sum(z[:, j] * w[:, (i + turn - j) % n] for j in range(n)) for i in range(n)], 1)


OPAQUE = [
    (_quotient, _by_conjugate, lambda z, w: _by_conjugate(z, w, -1.0)),
    (_unit, _unit_by_root, lambda z, w: _unit_by_root(z, w, 1e-4)),
    (_convolved, _convolved_by_sums, lambda z, w: _convolved_by_sums(z, w, 1)),
    (lambda z, w: jnp.abs(z + w), lambda z, w: jnp.hypot((z + w).real, (z + w).imag), lambda z, w: (z + w).real),
]
"""Complex operations whose rounding has no rule, so that both sides are executed in complex128: twin and fault."""


@pytest.mark.filterwarnings("ignore::samebits.OtherInputsWarning")  # of infinite cotangents, which are not stated
@pytest.mark.sampled(1)
@pytest.mark.parametrize("number", range(len(OPAQUE)))
def test_complex_arrays_are_executed_in_complex128(number: int) -> None:
    reference, variant, wrong = OPAQUE[number]
    z, w = (jax.random.normal(jax.random.key(seed), (4, 6), jnp.complex64) for seed in (0, 1))
    honest = samebits.check(reference, variant, z, w + 4)
    assert honest.verdict in ("rounding", "bitwise") and honest.ok
    failing = samebits.check(reference, wrong, z, w + 4, gradients=False)
    assert failing.verdict == "different"
    assert "could not tell" not in failing.failure() and "not the same mathematics" in failing.failure()
