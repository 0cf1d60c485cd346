"""Dropout by a mask that is given, quantisation, and means of the largest."""

import jax
import jax.numpy as jnp
import numpy as np

from tests.check.corpus.formula import Array, Formula, Function, f32, integers, like, normal


def dropout(x: Array, mask: Array) -> Array:
    return like(jnp.where(mask > 0, f32(x) / 0.8, 0), x)


def _dropped(factor: float) -> Function:
    return lambda x, mask: x * (mask * jnp.float32(factor))


DROPOUT = Formula(
    name="dropout",
    reference=dropout,
    args={"x": normal(6, 8), "mask": integers(6, 8, high=2)},
    honest={
        "product": lambda x, mask: x * mask / 0.8,
        "scaled": lambda x, mask: jnp.where(mask == 1, x * 1.25, 0),
        "einsum": lambda x, mask: jnp.einsum("bd,bd->bd", x, f32(mask) / 0.8),
    },
    twins={
        "not_scaled": _dropped(1.0),
        "scaled_the_other_way": _dropped(0.8),
        "inverted": lambda x, mask: jnp.where(mask == 0, x / 0.8, 0),
        "gradient_of_all": lambda x, mask: x / 0.8 + jax.lax.stop_gradient(jnp.where(mask > 0, 0, -x / 0.8)),
    },
)


def quantised(x: Array) -> Array:
    x32 = f32(x)
    scale = jnp.max(jnp.abs(x32), -1, keepdims=True) / 127
    return like(jnp.round(x32 / scale) * scale, x)


def through_int8(x: Array) -> Array:
    scale = jnp.max(jnp.abs(x), -1, keepdims=True) / 127
    return jnp.clip(jnp.round(x / scale), -127, 127).astype(jnp.int8).astype(jnp.float32) * scale


def _quantised(most: float, rounding: Function) -> Function:
    def side(x: Array) -> Array:
        scale = jnp.max(jnp.abs(x), -1, keepdims=True) / most
        return rounding(x / scale) * scale

    return side


QUANTISE = Formula(
    name="quantise_dequantise",
    reference=quantised,
    args={"x": normal(4, 16)},
    honest={"through_int8": through_int8, "plain": _quantised(127, jnp.round)},
    twins={
        "of_128": _quantised(128, jnp.round),
        "floor": _quantised(127, jnp.floor),
        "toward_zero": _quantised(127, jnp.trunc),
        "whole_tensor": lambda x: jnp.round(x / (jnp.max(jnp.abs(x)) / 127)) * (jnp.max(jnp.abs(x)) / 127),
    },
    gradients=False,
)


def sorted_mean(x: Array) -> Array:
    return like(jnp.mean(jax.lax.top_k(f32(x), 3)[0], -1), x)


MEAN_OF_LARGEST = Formula(
    name="mean_of_the_largest",
    reference=sorted_mean,
    args={"x": normal(5, 9)},
    honest={
        "sorted": lambda x: jnp.sum(jnp.sort(x, -1)[:, -3:], -1) / 3,
        "ranked": lambda x: jnp.mean(jnp.take_along_axis(x, jnp.argsort(-x, -1)[:, np.arange(3)], -1), -1),
    },
    twins={
        "smallest": lambda x: jnp.mean(jnp.sort(x, -1)[:, :3], -1),
        "second_to_fourth": lambda x: jnp.mean(jnp.sort(x, -1)[:, -4:-1], -1),
        "median": lambda x: jnp.median(x, -1),
    },
)

ALL = (DROPOUT, QUANTISE, MEAN_OF_LARGEST)
