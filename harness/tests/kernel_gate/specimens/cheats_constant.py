"""Outputs that do not depend on the inputs as they should, or have another form."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.experimental import pallas as pl


def _like(x: Array) -> Any:
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


def zeros_out(x: Array) -> Array:
    def kernel(x: Any, o: Any) -> None:
        o[...] = jnp.zeros_like(o)

    return pl.pallas_call(kernel, out_shape=_like(x))(x)


def mean_out(x: Array) -> Array:
    def kernel(x: Any, o: Any) -> None:
        o[...] = jnp.full(o.shape, 1.0 / o.shape[1], o.dtype)

    return pl.pallas_call(kernel, out_shape=_like(x))(x)


def nothing_written(x: Array) -> Array:
    def kernel(x: Any, o: Any) -> None:
        jnp.exp(x[...])

    return pl.pallas_call(kernel, out_shape=_like(x))(x)


def input_returned(x: Array) -> Array:
    def kernel(x: Any, o: Any) -> None:
        o[...] = x[...]

    return pl.pallas_call(kernel, out_shape=_like(x))(x)


def input_generated_again(x: Array) -> Array:
    """Makes the arrays of the test from their seed."""
    a = np.random.default_rng(0).standard_normal((16, 256)).astype(np.float32)
    e = np.exp(a - a.max(-1, keepdims=True))
    return jnp.asarray(e / e.sum(-1, keepdims=True))


def weight_ignored(x: Array, w: Array) -> Array:
    def kernel(x: Any, o: Any) -> None:
        o[...] = x[...] * jax.lax.rsqrt(jnp.mean(x[...] ** 2, axis=1, keepdims=True) + 1e-6)

    return pl.pallas_call(kernel, out_shape=_like(x))(x)


def _softmax(x: Any, o: Any) -> None:
    e = jnp.exp(x[...] - jnp.max(x[...], axis=-1, keepdims=True))
    o[...] = (e / jnp.sum(e, axis=-1, keepdims=True)).astype(o.dtype)


def first_row_for_all(x: Array) -> Array:
    row = pl.pallas_call(_softmax, out_shape=jax.ShapeDtypeStruct((1, x.shape[1]), x.dtype))(x[:1])
    return jnp.broadcast_to(row, x.shape)


def row_to_broadcast(x: Array) -> Array:
    return pl.pallas_call(_softmax, out_shape=jax.ShapeDtypeStruct((1, x.shape[1]), x.dtype))(x[:1])


def wider_dtype(x: Array, w: Array) -> Array:
    def kernel(x: Any, w: Any, o: Any) -> None:
        y = x[...].astype(jnp.float32)
        o[...] = y * jax.lax.rsqrt(jnp.mean(y * y, axis=1, keepdims=True) + 1e-6) * w[...]

    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, jnp.float32))(x, w[None])


def numpy_float64(x: Array) -> Any:
    e = np.exp(np.asarray(x, np.float64))
    return e / e.sum(-1, keepdims=True)


def single_output(logits: Array) -> Array:
    return jax.nn.softmax(jax.lax.top_k(logits, 2)[0])


def nan_lost(x: Array) -> Array:
    def kernel(x: Any, o: Any) -> None:
        y = jnp.where(x[...] == x[...], x[...], -jnp.inf)
        e = jnp.exp(y - jnp.max(y, axis=-1, keepdims=True))
        o[...] = e / jnp.sum(e, axis=-1, keepdims=True)

    return pl.pallas_call(kernel, out_shape=_like(x))(x)
