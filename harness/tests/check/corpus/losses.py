"""Losses: cross entropy in its forms, regression losses, divergences, and means under masks."""

import jax
import jax.numpy as jnp

from tests.check.corpus.formula import Array, Formula, f32, integers, like, normal, uniform

CLASSES = 10
LABELLED = {"logits": normal(6, CLASSES, scale=2.0), "labels": integers(6, high=CLASSES)}


def _picked(x: Array, labels: Array) -> Array:
    return jnp.take_along_axis(x, labels[:, None], axis=-1)[:, 0]


def _hot(labels: Array) -> Array:
    return jax.nn.one_hot(labels, CLASSES, dtype=jnp.float32)


def cross_entropy(logits: Array, labels: Array) -> Array:
    x = f32(logits)
    lse = jax.nn.logsumexp(x, -1)
    return like(lse - _picked(x, labels) + 1e-2 * lse**2, logits)


def _with_z(x: Array, nll: Array, z: float = 1e-2) -> Array:
    return nll + z * jnp.square(jax.nn.logsumexp(x, -1))


CROSS_ENTROPY = Formula(
    name="cross_entropy_with_z_loss",
    reference=cross_entropy,
    args=LABELLED,
    honest={
        "one_hot": lambda logits, labels: _with_z(logits, -jnp.sum(_hot(labels) * jax.nn.log_softmax(logits, -1), -1)),
        "picked_from_log_softmax": lambda logits, labels: _with_z(
            logits, -_picked(jax.nn.log_softmax(logits, -1), labels)
        ),
        "sum_of_differences": lambda logits, labels: _with_z(
            logits, jax.nn.logsumexp(logits - _picked(logits, labels)[:, None], -1)
        ),
    },
    twins={
        "no_z_loss": lambda logits, labels: jax.nn.logsumexp(logits, -1) - _picked(logits, labels),
        "z_not_squared": lambda logits, labels: 1.01 * jax.nn.logsumexp(logits, -1) - _picked(logits, labels),
        "z_a_tenth": lambda logits, labels: _with_z(logits, -_picked(jax.nn.log_softmax(logits, -1), labels), 1e-3),
        "z_without_gradient": lambda logits, labels: (
            -_picked(jax.nn.log_softmax(logits, -1), labels)
            + jax.lax.stop_gradient(1e-2 * jnp.square(jax.nn.logsumexp(logits, -1)))
        ),
        "labels_shifted": lambda logits, labels: _with_z(
            logits, -_picked(jax.nn.log_softmax(logits, -1), jnp.roll(labels, 1))
        ),
    },
)


def smoothed(logits: Array, labels: Array) -> Array:
    x = f32(logits)
    target = 0.9 * _hot(labels) + 0.1 / CLASSES
    return like(-jnp.sum(target * jax.nn.log_softmax(x, -1), -1), logits)


def _parts(logits: Array, labels: Array, uniform: float, own: float = 0.9) -> Array:
    logp = jax.nn.log_softmax(logits, -1)
    return -own * _picked(logp, labels) - uniform * jnp.sum(logp, -1)


LABEL_SMOOTHING = Formula(
    name="label_smoothing",
    reference=smoothed,
    args=LABELLED,
    honest={
        "two_terms": lambda logits, labels: _parts(logits, labels, 0.1 / CLASSES),
        "mean": lambda logits, labels: (
            -0.9 * _picked(jax.nn.log_softmax(logits, -1), labels) - 0.1 * jnp.mean(jax.nn.log_softmax(logits, -1), -1)
        ),
        "by_logits": lambda logits, labels: (
            jax.nn.logsumexp(logits, -1) - 0.9 * _picked(logits, labels) - 0.1 * jnp.mean(logits, -1)
        ),
    },
    twins={
        "other_classes_only": lambda logits, labels: _parts(logits, labels, 0.1 / (CLASSES - 1), 0.9),
        "own_class_whole": lambda logits, labels: _parts(logits, labels, 0.1 / CLASSES, 1.0),
        "sum_for_mean": lambda logits, labels: _parts(logits, labels, 0.1),
    },
)

PREDICTED = {"x": normal(5, 8), "y": normal(5, 8)}


MSE = Formula(
    name="mean_squared_error",
    reference=lambda x, y: like(jnp.mean(jnp.square(f32(x) - f32(y)), -1), x),
    args=PREDICTED,
    honest={
        "norm": lambda x, y: jnp.linalg.vecdot(x - y, x - y) / 8,
        "product": lambda x, y: jnp.mean((x - y) * (x - y), -1),
        "expanded": lambda x, y: jnp.mean(x * (x - y) - y * (x - y), -1),
    },
    twins={
        "halved": lambda x, y: 0.5 * jnp.mean((x - y) ** 2, -1),
        "sum": lambda x, y: jnp.sum((x - y) ** 2, -1),
        "absolute": lambda x, y: jnp.mean(jnp.abs(x - y), -1),
        "root": lambda x, y: jnp.sqrt(jnp.mean((x - y) ** 2, -1)),
        "target_without_gradient": lambda x, y: jnp.mean((x - jax.lax.stop_gradient(y)) ** 2, -1),
    },
)


def huber(x: Array, y: Array) -> Array:
    r = jnp.abs(f32(x) - f32(y))
    return like(jnp.where(r <= 1.5, 0.5 * r * r, 1.5 * (r - 0.75)), x)


def clipped(x: Array, y: Array) -> Array:
    """With q = min(|r|, d): q^2 / 2 + d (|r| - q)."""
    r = jnp.abs(x - y)
    q = jnp.minimum(r, 1.5)
    return 0.5 * q * q + 1.5 * (r - q)


HUBER = Formula(
    name="huber",
    reference=huber,
    args=PREDICTED,
    honest={
        "clipped": clipped,
        "product": lambda x, y: jnp.clip(x - y, -1.5, 1.5) * ((x - y) - 0.5 * jnp.clip(x - y, -1.5, 1.5)),
    },
    twins={
        "smooth_first_norm": lambda x, y: jnp.where(
            jnp.abs(x - y) < 1.5, 0.5 * (x - y) ** 2 / 1.5, jnp.abs(x - y) - 0.75
        ),
        "delta_of_one": lambda x, y: jnp.where(jnp.abs(x - y) < 1, 0.5 * (x - y) ** 2, jnp.abs(x - y) - 0.5),
        "not_continuous": lambda x, y: jnp.where(jnp.abs(x - y) < 1.5, 0.5 * (x - y) ** 2, 1.5 * jnp.abs(x - y)),
    },
)


def divergence(p: Array, q: Array) -> Array:
    first, second = jax.nn.log_softmax(f32(p), -1), jax.nn.log_softmax(f32(q), -1)
    return like(jnp.sum(jnp.exp(first) * (first - second), -1), p)


LOGITS = {"p": normal(6, 8, scale=1.5), "q": normal(6, 8, scale=1.5)}

KL = Formula(
    name="kl_divergence",
    reference=divergence,
    args=LOGITS,
    honest={
        "einsum": lambda p, q: jnp.einsum("bk,bk->b", jax.nn.softmax(p), jax.nn.log_softmax(p) - jax.nn.log_softmax(q)),
        "by_logits": lambda p, q: (
            jnp.sum(jax.nn.softmax(p) * (p - q), -1) - jax.nn.logsumexp(p, -1) + jax.nn.logsumexp(q, -1)
        ),
    },
    twins={
        "reversed": lambda p, q: jnp.sum(jax.nn.softmax(q) * (jax.nn.log_softmax(q) - jax.nn.log_softmax(p)), -1),
        "cross_entropy": lambda p, q: -jnp.sum(jax.nn.softmax(p) * jax.nn.log_softmax(q), -1),
        "mean": lambda p, q: jnp.mean(jax.nn.softmax(p) * (jax.nn.log_softmax(p) - jax.nn.log_softmax(q)), -1),
        "weights_without_gradient": lambda p, q: jnp.sum(
            jax.lax.stop_gradient(jax.nn.softmax(p)) * (jax.nn.log_softmax(p) - jax.nn.log_softmax(q)), -1
        ),
    },
)


def focal(logits: Array, labels: Array) -> Array:
    logp = _picked(jax.nn.log_softmax(f32(logits), -1), labels)
    return like(-((1 - jnp.exp(logp)) ** 2) * logp, logits)


FOCAL = Formula(
    name="focal_loss",
    reference=focal,
    args=LABELLED,
    honest={
        "expm1": lambda logits, labels: (
            -jnp.square(jnp.expm1(_picked(jax.nn.log_softmax(logits, -1), labels)))
            * _picked(jax.nn.log_softmax(logits, -1), labels)
        ),
        "probability_first": lambda logits, labels: (
            (1 - _picked(jax.nn.softmax(logits, -1), labels)) ** 2
            * (jax.nn.logsumexp(logits, -1) - _picked(logits, labels))
        ),
    },
    twins={
        "gamma_of_one": lambda logits, labels: (
            (jnp.exp(_picked(jax.nn.log_softmax(logits, -1), labels)) - 1)
            * _picked(jax.nn.log_softmax(logits, -1), labels)
        ),
        "weight_without_gradient": lambda logits, labels: (
            -jax.lax.stop_gradient(jnp.square(1 - _picked(jax.nn.softmax(logits, -1), labels)))
            * _picked(jax.nn.log_softmax(logits, -1), labels)
        ),
        "probability_itself": lambda logits, labels: (
            -jnp.square(_picked(jax.nn.softmax(logits, -1), labels)) * _picked(jax.nn.log_softmax(logits, -1), labels)
        ),
    },
)


def binary(x: Array, y: Array) -> Array:
    x32 = f32(x)
    return like(jnp.maximum(x32, 0) - x32 * f32(y) + jnp.log1p(jnp.exp(-jnp.abs(x32))), x)


BINARY = Formula(
    name="binary_cross_entropy",
    reference=binary,
    args={"x": normal(40, scale=2.0), "y": uniform(40, low=0.05, high=0.95)},
    honest={
        "two_log_sigmoids": lambda x, y: -y * jax.nn.log_sigmoid(x) - (1 - y) * jax.nn.log_sigmoid(-x),
        "softplus": lambda x, y: jax.nn.softplus(x) - x * y,
        "blend": lambda x, y: (1 - y) * x + jax.nn.softplus(-x),
    },
    twins={
        "labels_flipped": lambda x, y: jax.nn.softplus(x) - x * (1 - y),
        "clipped_probability": lambda x, y: (
            -y * jnp.log(jax.nn.sigmoid(x) + 1e-6) - (1 - y) * jnp.log(1 - jax.nn.sigmoid(x) + 1e-6)
        ),
        "maximum_forgotten": lambda x, y: jnp.log1p(jnp.exp(-jnp.abs(x))) - x * y,
    },
)


def masked_mean(x: Array, mask: Array) -> Array:
    kept = mask > 0
    return like(jnp.sum(jnp.where(kept, f32(x), 0), -1) / jnp.maximum(jnp.sum(kept, -1), 1), x)


def _mean_of_kept(x: Array, mask: Array) -> Array:
    kept = mask > 0
    nothing = ~kept.any(-1, keepdims=True)
    return jnp.where(nothing[:, 0], 0, jnp.mean(x, -1, where=kept | nothing))


MASKED_MEAN = Formula(
    name="masked_mean",
    reference=masked_mean,
    args={"x": normal(6, 12), "mask": integers(6, 12, high=2)},
    honest={
        "product": lambda x, mask: jnp.sum(x * mask, -1) / jnp.maximum(mask.sum(-1), 1),
        "einsum": lambda x, mask: jnp.einsum("bk,bk->b", x, f32(mask)) / jnp.maximum(f32(mask).sum(-1), 1.0),
        "library": _mean_of_kept,
    },
    twins={
        # The declared integers permit a row of zeros, whose mean is NaN then.
        "without_a_guard": lambda x, mask: jnp.mean(x, -1, where=mask > 0),
        "over_all": lambda x, mask: jnp.mean(x * mask, -1),
        "inverted": lambda x, mask: jnp.mean(x, -1, where=mask == 0),
        "epsilon_in_the_count": lambda x, mask: jnp.sum(x * mask, -1) / (mask.sum(-1) + 1e-6),
        "over_the_batch": lambda x, mask: jnp.sum(x * mask, -1) / jnp.mean(f32(mask.sum(-1))),
    },
)


def contrastive(x: Array, y: Array) -> Array:
    scores = 4.0 * jnp.einsum("id,jd->ij", f32(x), f32(y))
    return like(-jnp.diagonal(jax.nn.log_softmax(scores, -1)), x)


CONTRASTIVE = Formula(
    name="contrastive",
    reference=contrastive,
    args={"x": normal(5, 6, scale=0.4), "y": normal(5, 6, scale=0.4)},
    honest={
        "positive_apart": lambda x, y: jax.nn.logsumexp(4 * x @ y.T, -1) - 4 * jnp.sum(x * y, -1),
        "scaled_first": lambda x, y: -jnp.einsum("ii->i", jax.nn.log_softmax((2 * x) @ (2 * y).T, axis=1)),
    },
    twins={
        "other_direction": lambda x, y: -jnp.diagonal(jax.nn.log_softmax(4 * x @ y.T, 0)),
        "no_temperature": lambda x, y: -jnp.diagonal(jax.nn.log_softmax(x @ y.T, -1)),
        "positive_left_out": lambda x, y: (
            jax.nn.logsumexp(jnp.where(jnp.eye(5) > 0, -jnp.inf, 4 * x @ y.T), -1) - 4 * jnp.sum(x * y, -1)
        ),
    },
)

ALL = (CROSS_ENTROPY, LABEL_SMOOTHING, MSE, HUBER, KL, FOCAL, BINARY, MASKED_MEAN, CONTRASTIVE)
