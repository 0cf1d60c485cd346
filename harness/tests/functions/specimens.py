"""Functions that stand in for each other, and some that only seem to."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def softmax(x: Any, axis: int = -1) -> Any:
    return jax.nn.softmax(x, axis=axis)


def shifted(x: Any, axis: int = -1) -> Any:
    e = jnp.exp(x - jnp.max(x, axis=axis, keepdims=True))
    return e / jnp.sum(e, axis=axis, keepdims=True)


def wrong_axis(x: Any, axis: int = -1) -> Any:
    return shifted(x, axis=axis - 1)


def dense(params: dict[str, Any], x: Any) -> Any:
    return x @ params["w"] + params["b"]


def einsum(params: dict[str, Any], x: Any) -> Any:
    return jnp.einsum("bi,io->bo", x, params["w"]) + params["b"]


def without_bias(params: dict[str, Any], x: Any) -> Any:
    return x @ params["w"]


def rows_flipped(x: Any) -> Any:
    return jnp.flip(x, axis=0)


def rows_reversed(x: Any) -> Any:
    return x[::-1]


def parameters() -> dict[str, Any]:
    """As a network is initialised: the bias is zero."""
    return {"w": drawn(0, 4, 8), "b": jax.device_put(np.zeros(8, np.float32))}


def rows(dtype: Any = jnp.float32) -> Any:
    return drawn(1, 6, 4, dtype=dtype)


def drawn(seed: int, *shape: int, dtype: Any = jnp.float32) -> Any:
    """Normal numbers of NumPy's generator; jax's would be compiled anew after every comparison, as `jnp.asarray` is."""
    return jax.device_put(np.random.default_rng(seed).normal(size=shape).astype(dtype))
