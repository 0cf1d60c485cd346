"""Activations, variances and biases in the ways in which they are written, and wrong forms of them, in symbols."""

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from samebits.sizes.proofs.family import Family, Shaped
from tests.sizes.proofs.size_faults import Honest

LINE = Family(symbols={"n": 1}, args={"x": Shaped(("n",))})
ROWS = Family(symbols={"m": 1, "n": 1}, args={"x": Shaped(("m", "n"))})
LONGER = Family(symbols={"m": 1, "n": 1}, args={"x": Shaped(("m", "n + 1"))})
BIASED = Family(
    symbols={"m": 1, "d": 1, "n": 1}, args={"x": Shaped(("m", "d")), "w": Shaped(("d", "n")), "b": Shaped(("n",))}
)
SLOPE = 0.7978845608028654


def _erf(x: Any) -> Any:
    return 0.5 * x * (1 + lax.erf(x * math.sqrt(0.5)))


def _erfc(x: Any, sign: int = -1) -> Any:
    return 0.5 * x * lax.erfc(sign * x * math.sqrt(0.5))


def _cubic(x: Any) -> Any:
    return SLOPE * (x + 0.044715 * x**3)


def _normed(x: Any, less: int = 0, *, by_hand: bool = False) -> Any:
    mean = jnp.mean(x, -1, keepdims=True)
    variance = jnp.var(x, -1, keepdims=True, ddof=less)
    if by_hand:
        variance = jnp.sum((x - mean) ** 2, -1, keepdims=True) / (x.shape[-1] - less)
    return (x - mean) / jnp.sqrt(variance + 1e-6)


def _cut_off(x: Any, factor: float = 1, lowest: float = 0, *, over: bool = True, axis: int | None = -1) -> Any:
    """Normalised by the difference of two means, cut off at 0, as Flax's layers are."""
    mean = jnp.mean(x, axis, keepdims=True)
    difference = jnp.mean(jnp.square(x), axis, keepdims=True) - factor * jnp.square(mean)
    variance = jnp.maximum(lowest, difference) if over else jnp.minimum(difference, lowest)
    return (x - mean) * lax.rsqrt(variance + 1e-6)


def _with_ones(x: Any, w: Any, b: Any, *, ones: int = 1, first: bool = False) -> Any:
    rows = jnp.broadcast_to(b, (ones, b.shape[0]))
    column = jnp.ones((x.shape[0], ones), x.dtype)
    parts = [column, x] if first else [x, column]
    return jnp.concatenate(parts, 1) @ jnp.concatenate([w, rows], 0)


def _with_row_in_front(x: Any, w: Any, b: Any) -> Any:
    return jnp.concatenate([jnp.ones((x.shape[0], 1), x.dtype), x], 1) @ jnp.concatenate([b[None], w], 0)


ACTIVATIONS = (
    Honest(
        "relu by where",
        lambda x: jnp.maximum(x, 0),
        lambda x: jnp.where(x > 0, x, 0),
        LINE,
        {
            "the negative ones": lambda x: jnp.where(x <= 0, x, 0),
            "negated": lambda x: jnp.where(x > 0, -x, 0),
            "another threshold": lambda x: jnp.where(x > 0.5, x, 0),
            "of the next one": lambda x: jnp.where(jnp.roll(x, 1) > 0, x, 0),
        },
    ),
    Honest(
        "relu by where, the other way round",
        lambda x: jnp.maximum(0, x),
        lambda x: jnp.where(x < 0, 0, x),
        LINE,
        {"the negative ones": lambda x: jnp.where(x >= 0, 0, x)},
    ),
    Honest(
        "smaller of two",
        lambda x: jnp.minimum(x, 2 * x - 1),
        lambda x: jnp.where(x <= 2 * x - 1, x, 2 * x - 1),
        LINE,
        {"larger of two": lambda x: jnp.where(x >= 2 * x - 1, x, 2 * x - 1)},
    ),
    Honest("gelu by erfc", _erf, _erfc, LINE, {"another sign": lambda x: _erfc(x, 1), "half": lambda x: _erf(x) / 2}),
    Honest(
        "gelu by a sigmoid",
        lambda x: 0.5 * x * (1 + jnp.tanh(_cubic(x))),
        lambda x: x * jax.nn.sigmoid(2 * _cubic(x)),
        LINE,
        {
            "not twice": lambda x: x * jax.nn.sigmoid(_cubic(x)),
            "without the cube": lambda x: x * jax.nn.sigmoid(2 * SLOPE * x),
        },
    ),
    Honest(
        "one constant for two",
        lambda x: 2 * (SLOPE * jnp.exp(x)),
        lambda x: (2 * SLOPE) * jnp.exp(x),
        LINE,
        {"another constant": lambda x: (2 * SLOPE + 1e-3) * jnp.exp(x)},
    ),
    Honest(
        "tanh by exponentials",
        jnp.tanh,
        lambda x: (jnp.exp(x) - jnp.exp(-x)) / (jnp.exp(x) + jnp.exp(-x)),
        LINE,
        {"of half": lambda x: 2 * jax.nn.sigmoid(x) - 1, "less two": lambda x: 2 * jax.nn.sigmoid(2 * x) - 2},
    ),
    Honest(
        "variance",
        _normed,
        lambda x: _normed(x, by_hand=True),
        ROWS,
        {"one less": lambda x: _normed(x, 1), "by hand, one less": lambda x: _normed(x, 1, by_hand=True)},
    ),
    Honest(
        "variance of a sample",
        lambda x: _normed(x, 1),
        lambda x: _normed(x, 1, by_hand=True),
        LONGER,
        {"of all": _normed, "two less": lambda x: _normed(x, 2, by_hand=True)},
    ),
    Honest(
        "variance cut off at 0",
        _normed,
        _cut_off,
        ROWS,
        {
            "twice the mean": lambda x: _cut_off(x, 2),
            "half of the mean": lambda x: _cut_off(x, 0.5),
            "cut off at 1": lambda x: _cut_off(x, lowest=1),
            "the smaller one": lambda x: _cut_off(x, over=False),
            "of another axis": lambda x: _cut_off(x, axis=0),
            "of all axes": lambda x: _cut_off(x, axis=None),
            "of the opposite": lambda x: (
                (x - jnp.mean(x, -1, keepdims=True))
                * lax.rsqrt(
                    jnp.maximum(0, jnp.square(jnp.mean(x, -1, keepdims=True)) - jnp.mean(x * x, -1, keepdims=True))
                    + 1e-6
                )
            ),
        },
    ),
    Honest(
        "squares cut off at 0",
        lambda x: jnp.sum(x**2, -1),
        lambda x: jnp.maximum(jnp.sum(x * x, -1), 0),
        ROWS,
        {
            "cubes": lambda x: jnp.maximum(jnp.sum(x**3, -1), 0),
            "less 1": lambda x: jnp.maximum(jnp.sum(x * x, -1) - 1, 0),
            "at most 0": lambda x: jnp.minimum(jnp.sum(x * x, -1), 0),
        },
    ),
    Honest(
        "variance of a difference, cut off at 0",
        lambda x: _normed(x[:, 1:] - x[:, :-1]),
        lambda x: _cut_off(x[:, 1:] - x[:, :-1]),
        LONGER,
        {"of a sum": lambda x: _cut_off(x[:, 1:] + x[:, :-1])},
    ),
    Honest(
        "bias as a row",
        lambda x, w, b: x @ w + b,
        _with_ones,
        BIASED,
        {
            "two rows": lambda x, w, b: _with_ones(x, w, b, ones=2),
            "the column in front": lambda x, w, b: _with_ones(x, w, b, first=True),
            "no bias": lambda x, w, b: x @ w + 0 * b,
        },
    ),
    Honest("bias as the first row", lambda x, w, b: x @ w + b, _with_row_in_front, BIASED),
)
"""Those whose faults are refuted at sizes."""
