"""Normalisations: over the row, the batch, groups of channels; in one pass, in two, and by Welford's recurrence."""

import jax
import jax.numpy as jnp
import numpy as np

from tests.check.corpus.formula import Array, Formula, Function, f32, like, normal

ROWS = {"x": normal(6, 16), "scale": normal(16, scale=0.3, offset=1.0)}
AFFINE = {**ROWS, "bias": normal(16, scale=0.5)}


def rms_norm(x: Array, scale: Array) -> Array:
    x32 = f32(x)
    return like(x32 * jax.lax.rsqrt(jnp.mean(jnp.square(x32), -1, keepdims=True) + 1e-6) * f32(scale), x)


@jax.custom_vjp
def _normed(x: Array) -> Array:
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6)


def _save(x: Array) -> tuple[Array, tuple[Array, Array]]:
    root = jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6)
    return x * root, (x * root, root)


def _pull(saved: tuple[Array, Array], ct: Array) -> tuple[Array]:
    unit, root = saved
    return (root * (ct - unit * jnp.mean(ct * unit, -1, keepdims=True)),)


_normed.defvjp(_save, _pull)

RMS_NORM = Formula(
    name="rms_norm",
    reference=rms_norm,
    args=ROWS,
    honest={
        "einsum": lambda x, scale: x * (jnp.einsum("bd,bd->b", x, x)[:, None] / 16 + 1e-6) ** -0.5 * scale,
        "quotient": lambda x, scale: scale * x / jnp.sqrt(jnp.mean(x**2, -1, keepdims=True) + 1e-6),
        # d/dx (x r) = r (1 - u u^T / n) with u = x r.
        "handwritten_gradient": lambda x, scale: _normed(x) * scale,
    },
    twins={
        "epsilon_ten_times": lambda x, scale: x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-5) * scale,
        "epsilon_outside_the_root": lambda x, scale: x / (jnp.sqrt(jnp.mean(x * x, -1, keepdims=True)) + 1e-6) * scale,
        "one_plus_scale": lambda x, scale: x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * (1 + scale),
        "sum_for_mean": lambda x, scale: x * jax.lax.rsqrt(jnp.sum(x * x, -1, keepdims=True) + 1e-6) * scale,
        "root_without_gradient": lambda x, scale: (
            x * jax.lax.stop_gradient(jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6)) * scale
        ),
        "centred": lambda x, scale: (
            (x - jnp.mean(x, -1, keepdims=True)) * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * scale
        ),
    },
)


def layer_norm(x: Array, scale: Array, bias: Array) -> Array:
    x32 = f32(x)
    centred = x32 - jnp.mean(x32, -1, keepdims=True)
    root = jax.lax.rsqrt(jnp.mean(jnp.square(centred), -1, keepdims=True) + 1e-5)
    return like(centred * root * f32(scale) + f32(bias), x)


def one_pass(x: Array, scale: Array, bias: Array) -> Array:
    """The variance as E[x^2] - E[x]^2, which loses nothing where the mean is small."""
    mean = jnp.mean(x, -1, keepdims=True)
    variance = jnp.mean(x * x, -1, keepdims=True) - mean * mean
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * scale + bias


def welford(x: Array, scale: Array, bias: Array) -> Array:
    """Mean and sum of squares by one recurrence over the row (Welford 1962)."""
    mean, squares = jnp.zeros(x.shape[:1]), jnp.zeros(x.shape[:1])
    for i in range(x.shape[-1]):
        delta = x[:, i] - mean
        mean = mean + delta / (i + 1)
        squares = squares + delta * (x[:, i] - mean)
    root = jax.lax.rsqrt(squares / x.shape[-1] + 1e-5)
    return (x - mean[:, None]) * root[:, None] * scale + bias


def _layer_norm_by(variance: Function) -> Function:
    def side(x: Array, scale: Array, bias: Array) -> Array:
        root = jax.lax.rsqrt(variance(x) + 1e-5)
        return (x - jnp.mean(x, -1, keepdims=True)) * root * scale + bias

    return side


LAYER_NORM = Formula(
    name="layer_norm",
    reference=layer_norm,
    args=AFFINE,
    honest={
        "one_pass": one_pass,
        "welford": welford,
        "standardize": lambda x, scale, bias: jax.nn.standardize(x, axis=-1, epsilon=1e-5) * scale + bias,
        "library_variance": _layer_norm_by(lambda x: jnp.var(x, -1, keepdims=True)),
        # The mean is a product with the matrix 1 - 1/n.
        "centred_by_a_product": lambda x, scale, bias: (
            (x @ (jnp.eye(16) - 1 / 16))
            * jax.lax.rsqrt(jnp.mean((x @ (jnp.eye(16) - 1 / 16)) ** 2, -1, keepdims=True) + 1e-5)
            * scale
            + bias
        ),
    },
    twins={
        "one_degree_of_freedom_less": _layer_norm_by(lambda x: jnp.var(x, -1, keepdims=True, ddof=1)),
        "epsilon_a_tenth": lambda x, scale, bias: jax.nn.standardize(x, axis=-1, epsilon=1e-6) * scale + bias,
        "over_the_batch": lambda x, scale, bias: jax.nn.standardize(x, axis=0, epsilon=1e-5) * scale + bias,
        "variance_without_gradient": _layer_norm_by(lambda x: jax.lax.stop_gradient(jnp.var(x, -1, keepdims=True))),
        "mean_not_subtracted": lambda x, scale, bias: (
            x * jax.lax.rsqrt(jnp.var(x, -1, keepdims=True) + 1e-5) * scale + bias
        ),
        "bias_scaled": lambda x, scale, bias: (jax.nn.standardize(x, axis=-1, epsilon=1e-5) + bias) * scale,
    },
)


def batch_norm(x: Array, scale: Array, bias: Array) -> Array:
    x32 = f32(x)
    mean, variance = jnp.mean(x32, 0), jnp.var(x32, 0)
    return like((x32 - mean) / jnp.sqrt(variance + 1e-5) * f32(scale) + f32(bias), x)


def folded(x: Array, scale: Array, bias: Array) -> Array:
    """Scale and bias with the statistics in them, as for inference."""
    mean = jnp.mean(x, 0)
    factor = scale * jax.lax.rsqrt(jnp.var(x, 0) + 1e-5)
    return x * factor + (bias - mean * factor)


BATCH_NORM = Formula(
    name="batch_norm",
    reference=batch_norm,
    args={"x": normal(24, 8), "scale": normal(8, scale=0.3, offset=1.0), "bias": normal(8, scale=0.5)},
    honest={
        "folded": folded,
        "standardize": lambda x, scale, bias: jax.nn.standardize(x, axis=0, epsilon=1e-5) * scale + bias,
    },
    twins={
        "over_the_channels": lambda x, scale, bias: jax.nn.standardize(x, axis=1, epsilon=1e-5) * scale + bias,
        "unbiased": lambda x, scale, bias: (x - x.mean(0)) * jax.lax.rsqrt(jnp.var(x, 0, ddof=1) + 1e-5) * scale + bias,
        "mean_without_gradient": lambda x, scale, bias: (
            (x - jax.lax.stop_gradient(x.mean(0))) / jnp.sqrt(jnp.var(x, 0) + 1e-5) * scale + bias
        ),
        "first_half_of_the_batch": lambda x, scale, bias: (
            (x - x[:12].mean(0)) * jax.lax.rsqrt(jnp.var(x[:12], 0) + 1e-5) * scale + bias
        ),
    },
)

GROUPS = 4


def group_norm(x: Array, scale: Array) -> Array:
    grouped = f32(x).reshape(x.shape[0], GROUPS, -1)
    found = jax.nn.standardize(grouped, axis=-1, epsilon=1e-6)
    return like(found.reshape(x.shape) * f32(scale), x)


def by_membership(x: Array, scale: Array) -> Array:
    """The means of groups as products with a matrix that averages over the group of each channel."""
    which = np.arange(x.shape[-1]) // (x.shape[-1] // GROUPS)
    average = jnp.asarray((which[:, None] == which) / (x.shape[-1] // GROUPS), x.dtype)
    centred = x - x @ average
    return centred * jax.lax.rsqrt(jnp.square(centred) @ average + 1e-6) * scale


GROUP_NORM = Formula(
    name="group_norm",
    reference=group_norm,
    args=ROWS,
    honest={
        "by_membership": by_membership,
        "group_by_group": lambda x, scale: (
            jnp.concatenate([jax.nn.standardize(part, axis=-1, epsilon=1e-6) for part in jnp.split(x, GROUPS, -1)], -1)
            * scale
        ),
    },
    twins={
        "interleaved": lambda x, scale: (
            jnp.moveaxis(jax.nn.standardize(x.reshape(-1, 4, GROUPS), axis=1, epsilon=1e-6), 1, 1).reshape(x.shape)
            * scale
        ),
        "two_groups": lambda x, scale: (
            jax.nn.standardize(x.reshape(-1, 2, 8), axis=-1, epsilon=1e-6).reshape(x.shape) * scale
        ),
        "whole_row": lambda x, scale: jax.nn.standardize(x, axis=-1, epsilon=1e-6) * scale,
    },
)


def unit_rows(x: Array) -> Array:
    x32 = f32(x)
    return like(x32 / jnp.maximum(jnp.linalg.norm(x32, axis=-1, keepdims=True), 1e-6), x)


L2_NORMALISE = Formula(
    name="l2_normalise",
    reference=unit_rows,
    args={"x": normal(6, 12)},
    honest={
        "root": lambda x: x * jax.lax.rsqrt(jnp.maximum(jnp.sum(x * x, -1, keepdims=True), 1e-12)),
        "einsum": lambda x: x / jnp.sqrt(jnp.einsum("bd,bd->b", x, x))[:, None],
    },
    twins={
        "epsilon_added": lambda x: x / (jnp.linalg.norm(x, axis=-1, keepdims=True) + 1e-6),
        "first_norm": lambda x: x / jnp.sum(jnp.abs(x), -1, keepdims=True),
        "square": lambda x: x / jnp.sum(x * x, -1, keepdims=True),
        "norm_without_gradient": lambda x: x / jax.lax.stop_gradient(jnp.linalg.norm(x, axis=-1, keepdims=True)),
    },
)


def variance(x: Array) -> Array:
    return like(jnp.var(f32(x), axis=-1), x)


VARIANCE = Formula(
    name="variance",
    reference=variance,
    args={"x": normal(8, 16)},
    honest={
        "one_pass": lambda x: jnp.mean(x * x, -1) - jnp.mean(x, -1) ** 2,
        # Half the mean square difference of all pairs.
        "pairs": lambda x: jnp.mean((x[:, :, None] - x[:, None, :]) ** 2, (1, 2)) / 2,
        "shifted": lambda x: jnp.mean((x - x[:, :1]) ** 2, -1) - jnp.mean(x - x[:, :1], -1) ** 2,
    },
    twins={
        "unbiased": lambda x: jnp.var(x, -1, ddof=1),
        "second_moment": lambda x: jnp.mean(x * x, -1),
        "deviation": lambda x: jnp.std(x, -1),
        "all_pairs_but_equal": lambda x: jnp.sum((x[:, :, None] - x[:, None, :]) ** 2, (1, 2)) / (2 * 16 * 15),
    },
)

ALL = (RMS_NORM, LAYER_NORM, BATCH_NORM, GROUP_NORM, L2_NORMALISE, VARIANCE)
