"""Softmax, its logarithm, its normaliser, and what is built of them."""

import jax
import jax.numpy as jnp

from tests.check.corpus.formula import Array, Formula, f32, like, normal


def softmax(x: Array) -> Array:
    return jax.nn.softmax(x, axis=-1)


def _exponentials(x: Array) -> Array:
    return jnp.exp(x - jax.lax.stop_gradient(jnp.max(x, -1, keepdims=True)))


def summed_as_product(x: Array) -> Array:
    """The normaliser as a product with ones."""
    e = _exponentials(x)
    return e / (e @ jnp.ones((x.shape[-1], 1), e.dtype))


def base_two(x: Array) -> Array:
    """exp(x) = 2^(x log2 e), as attention kernels compute it."""
    e = jnp.exp2((x - jax.lax.stop_gradient(jnp.max(x, -1, keepdims=True))) * 1.4426950408889634)
    return e * (1 / jnp.sum(e, -1, keepdims=True))


def _stopped(x: Array) -> Array:
    e = _exponentials(f32(x))
    return like(e / jax.lax.stop_gradient(jnp.sum(e, -1, keepdims=True)), x)


SOFTMAX = Formula(
    name="softmax",
    reference=softmax,
    args={"x": normal(4, 12, scale=2.0)},
    honest={
        "fixed_float32": lambda x: like(jax.nn.softmax(f32(x), axis=-1), x),
        "exp_of_log": lambda x: like(jnp.exp(jax.nn.log_softmax(f32(x), axis=-1)), x),
        "summed_as_product": summed_as_product,
        "base_two": base_two,
        # The quotient does not depend on what is subtracted, as long as nothing overflows.
        "maximum_of_all": lambda x: jnp.exp(x - jnp.max(x)) / jnp.sum(jnp.exp(x - jnp.max(x)), -1, keepdims=True),
        "no_maximum": lambda x: jnp.exp(x) / jnp.sum(jnp.exp(x), -1, keepdims=True),
    },
    twins={
        "wrong_axis": lambda x: like(jax.nn.softmax(f32(x), axis=0), x),
        "epsilon_in_the_quotient": lambda x: _exponentials(x) / (_exponentials(x).sum(-1, keepdims=True) + 1e-6),
        "one_in_the_quotient": lambda x: _exponentials(x) / (_exponentials(x).sum(-1, keepdims=True) + 1),
        "temperature": lambda x: like(jax.nn.softmax(f32(x) * 1.01, axis=-1), x),
        "normaliser_without_gradient": _stopped,
        "base_two_alone": lambda x: jnp.exp2(x) / jnp.sum(jnp.exp2(x), -1, keepdims=True),
    },
)


SOFTMAX_LARGE = Formula(
    name="softmax_of_large_numbers",
    reference=lambda x: jax.nn.softmax(x, axis=-1),
    # So large that some number overflows in every draw: with a scale of 60 in one draw of 30 none did.
    args={"x": normal(4, 12, scale=200.0)},
    honest={"fixed_float32": lambda x: like(jax.nn.softmax(f32(x), axis=-1), x)},
    twins={
        "overflows": lambda x: jnp.exp(x) / jnp.sum(jnp.exp(x), -1, keepdims=True),
        "clipped_at_eighty": lambda x: like(jax.nn.softmax(jnp.minimum(f32(x), 50.0), axis=-1), x),
    },
    gradients=False,
)


def log_softmax(x: Array) -> Array:
    return jax.nn.log_softmax(x, axis=-1)


LOG_SOFTMAX = Formula(
    name="log_softmax",
    reference=log_softmax,
    args={"x": normal(4, 12, scale=2.0)},
    honest={
        "fixed_float32": lambda x: like(jax.nn.log_softmax(f32(x), axis=-1), x),
        "less_its_normaliser": lambda x: x - jax.nn.logsumexp(x, -1, keepdims=True),
        "no_maximum": lambda x: x - jnp.log(jnp.sum(jnp.exp(x), -1, keepdims=True)),
    },
    twins={
        "mean_for_sum": lambda x: x - jnp.log(jnp.mean(jnp.exp(x), -1, keepdims=True)),
        "base_two": lambda x: x - jnp.log2(jnp.sum(jnp.exp(x), -1, keepdims=True)),
        "epsilon_in_the_logarithm": lambda x: jnp.log(jax.nn.softmax(x, -1) + 1e-6),
        "wrong_axis": lambda x: like(jax.nn.log_softmax(f32(x), axis=0), x),
    },
)


def logsumexp(x: Array) -> Array:
    return jax.nn.logsumexp(x, axis=-1)


def pairwise(x: Array) -> Array:
    """log(exp a + exp b + ...) two at a time."""
    total = x[:, 0]
    for i in range(1, x.shape[-1]):
        total = jnp.logaddexp(total, x[:, i])
    return total


LOGSUMEXP = Formula(
    name="logsumexp",
    reference=logsumexp,
    args={"x": normal(4, 8, scale=3.0, offset=2.0)},
    honest={
        "by_hand": lambda x: jnp.max(x, -1) + jnp.log(jnp.sum(jnp.exp(x - jnp.max(x, -1, keepdims=True)), -1)),
        "pairwise": pairwise,
    },
    twins={
        "maximum_forgotten": lambda x: jnp.log(jnp.sum(jnp.exp(x - jnp.max(x, -1, keepdims=True)), -1)),
        "of_the_mean": lambda x: jnp.log(jnp.mean(jnp.exp(x), -1)),
        "last_one_left_out": lambda x: jax.nn.logsumexp(x[:, :-1], -1),
        "maximum": lambda x: jnp.max(x, -1),
    },
)


def logaddexp(x: Array, y: Array) -> Array:
    return jnp.logaddexp(x, y)


LOGADDEXP = Formula(
    name="logaddexp",
    reference=logaddexp,
    args={"x": normal(24, scale=3.0), "y": normal(24, scale=3.0)},
    honest={
        "by_hand": lambda x, y: jnp.maximum(x, y) + jnp.log1p(jnp.exp(-jnp.abs(x - y))),
        "stacked": lambda x, y: jax.nn.logsumexp(jnp.stack([x, y]), axis=0),
    },
    twins={
        "minimum": lambda x, y: jnp.minimum(x, y) + jnp.log1p(jnp.exp(-jnp.abs(x - y))),
        "base_two": lambda x, y: jnp.logaddexp2(x, y),
        "first_order": lambda x, y: jnp.maximum(x, y) + jnp.exp(-jnp.abs(x - y)),
    },
)


TWO_CLASSES = Formula(
    name="softmax_of_two",
    reference=lambda x: jax.nn.softmax(x, axis=-1)[..., 0],
    args={"x": normal(16, 2, scale=2.0)},
    honest={
        "sigmoid": lambda x: jax.nn.sigmoid(x[..., 0] - x[..., 1]),
        "quotient": lambda x: 1 / (1 + jnp.exp(x[..., 1] - x[..., 0])),
    },
    twins={
        "other_class": lambda x: jax.nn.sigmoid(x[..., 1] - x[..., 0]),
        "one_logit": lambda x: jax.nn.sigmoid(x[..., 0]),
    },
)

ALL = (SOFTMAX, SOFTMAX_LARGE, LOG_SOFTMAX, LOGSUMEXP, LOGADDEXP, TWO_CLASSES)
