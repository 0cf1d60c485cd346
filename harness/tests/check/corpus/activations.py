"""Activation functions, and the gated ones of feed-forward layers."""

import math

import jax
import jax.numpy as jnp

from tests.check.corpus.formula import Array, Formula, f32, like, normal


def gelu(x: Array) -> Array:
    x32 = f32(x)
    return like(0.5 * x32 * (1 + jax.lax.erf(x32 / math.sqrt(2))), x)


GELU = Formula(
    name="gelu_erf",
    reference=gelu,
    args={"x": normal(64)},
    honest={
        # 1 + erf(u) = erfc(-u), and better: nothing cancels for negative u.
        "erfc": lambda x: 0.5 * x * jax.lax.erfc(-x * math.sqrt(0.5)),
        "library": lambda x: like(jax.nn.gelu(f32(x), approximate=False), x),
        "normal_distribution": lambda x: x * jax.scipy.stats.norm.cdf(x),
    },
    twins={
        "tanh": lambda x: like(jax.nn.gelu(f32(x), approximate=True), x),
        "sigmoid": lambda x: x * jax.nn.sigmoid(1.702 * x),
        "argument_not_scaled": lambda x: 0.5 * x * (1 + jax.lax.erf(x)),
        "half_forgotten": lambda x: x * (1 + jax.lax.erf(x / math.sqrt(2))),
    },
)


def gelu_tanh(x: Array) -> Array:
    return jax.nn.gelu(x, approximate=True)


_C = math.sqrt(2 / math.pi)

GELU_TANH = Formula(
    name="gelu_tanh",
    reference=gelu_tanh,
    args={"x": normal(64)},
    honest={
        "fixed_float32": lambda x: like(jax.nn.gelu(f32(x), approximate=True), x),
        "factored": lambda x: 0.5 * x * (1 + jnp.tanh(_C * x * (1 + 0.044715 * x * x))),
        # (1 + tanh u) / 2 = sigmoid(2 u)
        "sigmoid": lambda x: x * jax.nn.sigmoid(2 * _C * (x + 0.044715 * x**3)),
    },
    twins={
        "erf": lambda x: like(jax.nn.gelu(f32(x), approximate=False), x),
        # 0.044751 would be the same number in bfloat16, in which the reference takes it.
        "digits_swapped": lambda x: 0.5 * x * (1 + jnp.tanh(_C * (x + 0.047415 * x**3))),
        "square_for_cube": lambda x: 0.5 * x * (1 + jnp.tanh(_C * (x + 0.044715 * x**2))),
        "root_rounded": lambda x: 0.5 * x * (1 + jnp.tanh(0.79 * (x + 0.044715 * x**3))),
    },
)

GELU_TANH_WIDE = Formula(
    name="gelu_tanh_wide",
    reference=lambda x: like(jax.nn.gelu(f32(x), approximate=True), x),
    args={"x": normal(64)},
    honest={"factored": lambda x: 0.5 * x * (1 + jnp.tanh(_C * x * (1 + 0.044715 * x * x)))},
    twins={"digits_swapped": lambda x: 0.5 * x * (1 + jnp.tanh(_C * (x + 0.044751 * x**3)))},
)


def silu(x: Array) -> Array:
    return jax.nn.silu(x)


SILU = Formula(
    name="silu",
    reference=silu,
    args={"x": normal(64, scale=2.0)},
    honest={
        "quotient": lambda x: x / (1 + jnp.exp(-x)),
        "tanh": lambda x: 0.5 * x + 0.5 * x * jnp.tanh(0.5 * x),
        "fixed_float32": lambda x: like(jax.nn.silu(f32(x)), x),
    },
    twins={
        "hard": lambda x: x * jnp.clip(x / 6 + 0.5, 0, 1),
        "swish_of_another_beta": lambda x: x * jax.nn.sigmoid(1.001 * x),
        "sign": lambda x: x * jax.nn.sigmoid(-x),
        "gate_without_gradient": lambda x: x * jax.lax.stop_gradient(jax.nn.sigmoid(x)),
    },
)


def softplus(x: Array) -> Array:
    return jax.nn.softplus(x)


SOFTPLUS = Formula(
    name="softplus",
    reference=softplus,
    args={"x": normal(64, scale=3.0)},
    honest={
        "by_hand": lambda x: jnp.log1p(jnp.exp(-jnp.abs(x))) + jnp.maximum(x, 0),
        "log_sigmoid": lambda x: -jax.nn.log_sigmoid(-x),
        "plain": lambda x: jnp.log1p(jnp.exp(x)),
    },
    twins={
        "linear_above_two": lambda x: jnp.where(x > 2, x, jax.nn.softplus(x)),
        "of_two_x": lambda x: jax.nn.softplus(2 * x) / 2,
        "maximum_forgotten": lambda x: jnp.log1p(jnp.exp(-jnp.abs(x))),
        "squareplus": lambda x: (x + jnp.sqrt(x * x + 4)) / 2,
    },
)


def mish(x: Array) -> Array:
    x32 = f32(x)
    return like(x32 * jnp.tanh(jax.nn.softplus(x32)), x)


MISH = Formula(
    name="mish",
    reference=mish,
    args={"x": normal(64, scale=2.0)},
    honest={
        "library": lambda x: like(jax.nn.mish(f32(x)), x),
        # tanh(log(1 + e)) = ((1 + e)^2 - 1) / ((1 + e)^2 + 1) with e = exp x.
        "rational": lambda x: x * (jnp.exp(x) * (jnp.exp(x) + 2)) / (jnp.exp(x) * (jnp.exp(x) + 2) + 2),
    },
    twins={
        "sigmoid": lambda x: x * jax.nn.sigmoid(jax.nn.softplus(x)),
        "exponential": lambda x: x * jnp.tanh(jnp.exp(x)),
        "without_x": lambda x: jnp.tanh(jax.nn.softplus(x)),
    },
)


def sigmoid(x: Array) -> Array:
    return jax.nn.sigmoid(x)


SIGMOID = Formula(
    name="sigmoid",
    reference=sigmoid,
    args={"x": normal(64, scale=2.0)},
    honest={
        "quotient": lambda x: 1 / (1 + jnp.exp(-x)),
        "other_quotient": lambda x: jnp.exp(x) / (1 + jnp.exp(x)),
        "exp_of_log": lambda x: jnp.exp(jax.nn.log_sigmoid(x)),
    },
    twins={
        "hard": lambda x: jnp.clip(x / 6 + 0.5, 0, 1),
        "one_less": lambda x: 1 - 1 / (1 + jnp.exp(-x)),
        "tanh": lambda x: 0.5 * (1 + jnp.tanh(x)),
    },
)


def elu(x: Array) -> Array:
    return jax.nn.elu(x)


ELU = Formula(
    name="elu",
    reference=elu,
    args={"x": normal(64, scale=2.0)},
    honest={
        "clipped": lambda x: jnp.maximum(x, 0) + jnp.expm1(jnp.minimum(x, 0)),
        "chosen": lambda x: jnp.where(x > 0, x, jnp.expm1(jnp.where(x > 0, 0, x))),
    },
    twins={
        "alpha": lambda x: jax.nn.elu(x, alpha=0.99),
        "scaled": lambda x: jax.nn.selu(x),
        "softened": lambda x: jnp.where(x > 0, x, jnp.tanh(x)),
    },
)


def relu_squared(x: Array) -> Array:
    return jnp.square(jax.nn.relu(x))


RELU_SQUARED = Formula(
    name="relu_squared",
    reference=relu_squared,
    args={"x": normal(64)},
    honest={
        "product": lambda x: x * jax.nn.relu(x),
        "chosen": lambda x: jnp.where(x > 0, x * x, 0),
        "halves": lambda x: 0.5 * x * (x + jnp.abs(x)),
    },
    twins={
        "square": lambda x: jnp.square(x),
        "leaky": lambda x: jnp.square(jax.nn.leaky_relu(x, 1e-2)),
        "one_factor_without_gradient": lambda x: jax.lax.stop_gradient(jax.nn.relu(x)) * jax.nn.relu(x),
    },
)


def softcap(x: Array) -> Array:
    x32 = f32(x)
    return like(30.0 * jnp.tanh(x32 / 30.0), x)


SOFTCAP = Formula(
    name="softcap",
    reference=softcap,
    args={"x": normal(64, scale=20.0)},
    honest={
        "reciprocal": lambda x: jnp.tanh(x * (1 / 30.0)) * 30.0,
        # tanh(u) = expm1(2 u) / (expm1(2 u) + 2)
        "expm1": lambda x: 30.0 * jnp.expm1(x / 15.0) / (jnp.expm1(x / 15.0) + 2),
    },
    twins={
        "cap_of_fifty": lambda x: 50.0 * jnp.tanh(x / 50.0),
        "not_scaled_back": lambda x: jnp.tanh(x / 30.0),
        "clipped": lambda x: jnp.clip(x, -30.0, 30.0),
        "cap_in_float16_steps": lambda x: 30.0 * jnp.tanh(x / 30.01),
    },
)


def swiglu(x: Array, w: Array) -> Array:
    gate, up = jnp.split(f32(x) @ f32(w), 2, axis=-1)
    return like(jax.nn.silu(gate) * up, x)


GATED = {"x": normal(4, 8), "w": normal(8, 12, scale=0.35)}

SWIGLU = Formula(
    name="swiglu",
    reference=swiglu,
    args=GATED,
    honest={
        "two_products": lambda x, w: jax.nn.silu(x @ w[:, :6]) * (x @ w[:, 6:]),
        "einsum": lambda x, w: (
            jax.nn.silu(jnp.einsum("bd,dgf->gbf", x, w.reshape(8, 2, 6))[0])
            * jnp.einsum("bd,dgf->gbf", x, w.reshape(8, 2, 6))[1]
        ),
    },
    twins={
        "halves_swapped": lambda x, w: jax.nn.silu(x @ w[:, 6:]) * (x @ w[:, :6]),
        "interleaved": lambda x, w: jax.nn.silu(x @ w[:, ::2]) * (x @ w[:, 1::2]),
        "gelu": lambda x, w: jax.nn.gelu(x @ w[:, :6]) * (x @ w[:, 6:]),
        "both_gated": lambda x, w: jax.nn.silu(x @ w[:, :6]) * jax.nn.silu(x @ w[:, 6:]),
    },
)


def geglu(x: Array, w: Array) -> Array:
    gate, up = jnp.split(f32(x) @ f32(w), 2, axis=-1)
    return like(jax.nn.gelu(gate) * up, x)


GEGLU = Formula(
    name="geglu",
    reference=geglu,
    args=GATED,
    honest={"two_products": lambda x, w: (x @ w[:, 6:]) * jax.nn.gelu(x @ w[:, :6], approximate=True)},
    twins={
        "erf": lambda x, w: (x @ w[:, 6:]) * jax.nn.gelu(x @ w[:, :6], approximate=False),
        "sigmoid": lambda x, w: (x @ w[:, 6:]) * jax.nn.sigmoid(x @ w[:, :6]),
    },
)

ALL = (GELU, GELU_TANH, GELU_TANH_WIDE, SILU, SOFTPLUS, MISH, SIGMOID, ELU, RELU_SQUARED, SOFTCAP, SWIGLU, GEGLU)
