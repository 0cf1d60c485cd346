"""Fewer bits or fewer terms than the reference has, and gradients that are not those of the function."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu


def _product(a: Array, b: Array, kernel: Any) -> Array:
    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((a.shape[0], b.shape[1]), a.dtype))(a, b)


def _softmax_by(x: Array, exp: Any, divide: Any = jnp.divide) -> Array:
    def kernel(x: Any, o: Any) -> None:
        e = exp(x[...] - jnp.max(x[...], axis=1, keepdims=True))
        o[...] = divide(e, jnp.sum(e, axis=1, keepdims=True))

    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)


def bfloat16_inside(a: Array, b: Array) -> Array:
    def kernel(a: Any, b: Any, o: Any) -> None:
        x, y = a[...].astype(jnp.bfloat16), b[...].astype(jnp.bfloat16)
        o[...] = jnp.dot(x, y, preferred_element_type=jnp.float32)

    return _product(a, b, kernel)


def bfloat16_sums(a: Array, b: Array) -> Array:
    def kernel(a: Any, b: Any, o: Any, acc: Any) -> None:
        acc[...] = jnp.zeros_like(acc)
        for k in range(0, a.shape[1], 32):
            part = jnp.dot(a[:, k : k + 32], b[k : k + 32, :], preferred_element_type=jnp.float32)
            acc[...] += part.astype(acc.dtype)
        o[...] = acc[...].astype(o.dtype)

    shape = jax.ShapeDtypeStruct((a.shape[0], b.shape[1]), a.dtype)
    return pl.pallas_call(kernel, out_shape=shape, scratch_shapes=[pltpu.VMEM(shape.shape, jnp.bfloat16)])(a, b)


def int8_weights(a: Array, b: Array) -> Array:
    def kernel(a: Any, b: Any, scale: Any, o: Any) -> None:
        o[...] = jnp.dot(a[...], b[...].astype(jnp.float32) * scale[...], precision="highest")

    scale = jnp.max(jnp.abs(b), axis=0, keepdims=True) / 127
    shape = jax.ShapeDtypeStruct((a.shape[0], b.shape[1]), a.dtype)
    return pl.pallas_call(kernel, out_shape=shape)(a, jnp.round(b / scale).astype(jnp.int8), scale)


def low_rank(a: Array, b: Array) -> Array:
    """The thirty-two largest singular values."""
    u, s, v = jnp.linalg.svd(b, full_matrices=False)

    def kernel(a: Any, b: Any, o: Any) -> None:
        o[...] = jnp.dot(a[...], b[...], precision="highest")

    return _product(_product(a, u[:, :32] * s[:32], kernel), v[:32], kernel)


def fast_exp(x: Array) -> Array:
    return _softmax_by(x, lambda y: jnp.where(y > -64, (1 + y / 64), 0) ** 64)


def exp_from_bits(x: Array) -> Array:
    """The exponent of a float as an integer."""

    def exp(y: Any) -> Any:
        bits = jnp.clip(y, -80, 0) * (2**23 / 0.6931472) + (127 * 2**23 - 366393)
        return jax.lax.bitcast_convert_type(bits.astype(jnp.int32), jnp.float32)

    return _softmax_by(x, exp)


def small_terms_skipped(x: Array) -> Array:
    return _softmax_by(x, lambda y: jnp.where(y > -4, jnp.exp(y), 0))


def tanh_gelu(x: Array, w: Array, b: Array) -> Array:
    def kernel(x: Any, w: Any, b: Any, o: Any) -> None:
        y = jnp.dot(x[...], w[...], precision="highest") + b[...]
        o[...] = 0.5 * y * (1 + jnp.tanh(0.7978846 * (y + 0.044715 * y**3)))

    shape = jax.ShapeDtypeStruct((x.shape[0], w.shape[1]), x.dtype)
    return pl.pallas_call(kernel, out_shape=shape)(x, w, b[None])


def half_of_keys(q: Array, k: Array, v: Array) -> Array:
    def kernel(q: Any, k: Any, v: Any, o: Any) -> None:
        s = jnp.dot(q[0], k[0].T, precision="highest") * q.shape[2] ** -0.5
        row, column = (jax.lax.broadcasted_iota(jnp.int32, s.shape, axis) for axis in (0, 1))
        seen = (2 * column <= row) | (column == 0)
        o[0] = jnp.dot(jax.nn.softmax(jnp.where(seen, s, -jnp.inf)), v[0], precision="highest")

    keys = pl.BlockSpec((1, q.shape[1] // 2, q.shape[2]), lambda h: (h, 0, 0))
    block = pl.BlockSpec((1, *q.shape[1:]), lambda h: (h, 0, 0))
    shape = jax.ShapeDtypeStruct(q.shape, q.dtype)
    call = pl.pallas_call(kernel, grid=(q.shape[0],), in_specs=[block, keys, keys], out_specs=block, out_shape=shape)
    return call(q, k[:, ::2], v[:, ::2])


def values_averaged(q: Array, k: Array, v: Array) -> Array:
    """All keys weigh the same, which is near the truth where logits are small."""
    ones = jnp.arange(1, q.shape[1] + 1, dtype=q.dtype)[:, None]
    return jnp.cumsum(v, axis=1) / ones


def _norm(x: Array, w: Array) -> Array:
    def kernel(x: Any, w: Any, o: Any) -> None:
        o[...] = x[...] * jax.lax.rsqrt(jnp.mean(x[...] ** 2, axis=1, keepdims=True) + 1e-6) * w[...]

    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x, w[None])


@jax.custom_vjp
def zero_gradient(x: Array, w: Array) -> Array:
    return _norm(x, w)


zero_gradient.defvjp(
    lambda x, w: (_norm(x, w), (x, w)), lambda saved, g: (jnp.zeros_like(saved[0]), jnp.zeros_like(saved[1]))
)


@jax.custom_vjp
def straight_through(x: Array, w: Array) -> Array:
    return _norm(x, w)


straight_through.defvjp(
    lambda x, w: (_norm(x, w), (x, w)), lambda saved, g: (g * saved[1], jnp.sum(g * saved[0], axis=0))
)


def weight_without_gradient(x: Array, w: Array) -> Array:
    y = x * jax.lax.rsqrt(jnp.mean(jnp.square(x), axis=1, keepdims=True) + 1e-6)
    return y * jax.lax.stop_gradient(w)


@jax.custom_vjp
def bfloat16_gradient(x: Array, w: Array) -> Array:
    return _norm(x, w)


def _rounded(saved: tuple[Array, Array], g: Array) -> tuple[Array, Array]:
    x, w, g = (a.astype(jnp.bfloat16) for a in (*saved, g))
    r = jax.lax.rsqrt(jnp.mean(x * x, axis=1, keepdims=True))
    dx = r * (g * w - x * r * jnp.mean(g * w * x * r, axis=1, keepdims=True))
    return dx.astype(jnp.float32), jnp.sum(g * x * r, axis=0).astype(jnp.float32)


bfloat16_gradient.defvjp(lambda x, w: (_norm(x, w), (x, w)), _rounded)
