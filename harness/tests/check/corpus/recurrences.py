"""Cumulative sums, recurrences, moving averages and sums over segments: as scans, as products, as trees."""

import jax
import jax.numpy as jnp
import numpy as np

from tests.check.corpus.formula import Array, Formula, f32, integers, like, normal, uniform

T = 12
SERIES = {"x": normal(3, T)}
LOWER = np.tril(np.ones((T, T), np.float32))


def cumsum(x: Array) -> Array:
    return like(jnp.cumsum(f32(x), axis=-1), x)


def scanned(x: Array) -> Array:
    def step(total: Array, now: Array) -> tuple[Array, Array]:
        return total + now, total + now

    return jax.lax.scan(step, jnp.zeros(x.shape[0]), x.T)[1].T


def doubling(x: Array) -> Array:
    """Hillis and Steele's prefix sums: in each round every element adds what lies twice as far back."""
    shift = 1
    while shift < T:
        x = x + jnp.pad(x, ((0, 0), (shift, 0)))[:, :T]
        shift *= 2
    return x


CUMSUM = Formula(
    name="cumsum",
    reference=cumsum,
    args=SERIES,
    honest={
        "scanned": scanned,
        "product": lambda x: x @ LOWER.T,
        "tree": lambda x: jax.lax.associative_scan(jnp.add, x, axis=-1),
        "doubling": doubling,
    },
    twins={
        "exclusive": lambda x: jnp.cumsum(x, -1) - x,
        "reversed": lambda x: jnp.cumsum(x[:, ::-1], -1)[:, ::-1],
        "product_transposed": lambda x: x @ LOWER,
        "wrong_axis": lambda x: jnp.cumsum(x, 0),
        "last_one_late": lambda x: jnp.cumsum(x, -1).at[:, -1].add(-x[:, -1]),
    },
)

LINEAR = {"a": uniform(3, T, low=0.3, high=0.95), "b": normal(3, T)}


def recurrence(a: Array, b: Array) -> Array:
    def step(h: Array, now: tuple[Array, Array]) -> tuple[Array, Array]:
        h = now[0] * h + now[1]
        return h, h

    return like(jax.lax.scan(step, jnp.zeros(a.shape[0]), (f32(a).T, f32(b).T))[1].T, a)


def _joined(first: tuple[Array, Array], second: tuple[Array, Array]) -> tuple[Array, Array]:
    """The map h -> a h + b of the first, then that of the second."""
    return first[0] * second[0], second[0] * first[1] + second[1]


def _wrongly_joined(first: tuple[Array, Array], second: tuple[Array, Array]) -> tuple[Array, Array]:
    return first[0] * second[0], first[0] * second[1] + first[1]


def unrolled(a: Array, b: Array) -> Array:
    h, found = jnp.zeros(a.shape[0]), []
    for t in range(T):
        h = a[:, t] * h + b[:, t]
        found.append(h)
    return jnp.stack(found, -1)


def decay_matrix(a: Array, b: Array) -> Array:
    """h_t is the sum over s of b_s times the product of a over (s, t]."""
    rows = [
        jnp.stack([jnp.prod(a[:, s + 1 : t + 1], -1) if s <= t else jnp.zeros(3) for s in range(T)], -1)
        for t in range(T)
    ]
    return jnp.einsum("bts,bs->bt", jnp.stack(rows, 1), b)


LINEAR_RECURRENCE = Formula(
    name="linear_recurrence",
    reference=recurrence,
    args=LINEAR,
    honest={
        "tree": lambda a, b: jax.lax.associative_scan(_joined, (a, b), axis=-1)[1],
        "unrolled": unrolled,
        "decay_matrix": decay_matrix,
    },
    twins={
        "joined_the_other_way": lambda a, b: jax.lax.associative_scan(_wrongly_joined, (a, b), axis=-1)[1],
        "first_input_dropped": lambda a, b: jax.lax.associative_scan(_joined, (a, b.at[:, 0].set(0)), axis=-1)[1],
        "decay_one_step_late": lambda a, b: jax.lax.associative_scan(_joined, (jnp.roll(a, 1, -1), b), axis=-1)[1],
        "decay_without_gradient": lambda a, b: jax.lax.associative_scan(
            _joined, (jax.lax.stop_gradient(a), b), axis=-1
        )[1],
    },
)


def ema(x: Array) -> Array:
    def step(mean: Array, now: Array) -> tuple[Array, Array]:
        mean = 0.9 * mean + 0.1 * now
        return mean, mean

    found = jax.lax.scan(step, jnp.zeros(x.shape[0]), f32(x).T)[1].T
    return like(found / (1 - 0.9 ** jnp.arange(1, T + 1, dtype=jnp.float32)), x)


def _weights(decay: float = 0.9) -> Array:
    far = np.arange(T)[:, None] - np.arange(T)[None, :]
    weights = np.where(far >= 0, decay ** np.maximum(far, 0), 0)
    return (weights / weights.sum(1, keepdims=True)).astype(np.float32)


def by_difference(x: Array) -> Array:
    """The mean moves by a tenth of the difference; then it is divided by one less decay^t."""
    mean, found = jnp.zeros(x.shape[0]), []
    for t in range(T):
        mean = mean + 0.1 * (x[:, t] - mean)
        found.append(mean / (1 - 0.9 ** (t + 1)))
    return jnp.stack(found, -1)


MOVING_AVERAGE = Formula(
    name="moving_average",
    reference=ema,
    args=SERIES,
    honest={"weights": lambda x: x @ _weights().T, "by_difference": by_difference},
    twins={
        "bias_not_corrected": lambda x: (
            x @ (_weights() * (1 - 0.9 ** np.arange(1, T + 1))[:, None]).astype(np.float32).T
        ),
        "decay_of_point_99": lambda x: x @ _weights(0.99).T,
        "corrected_one_step_late": lambda x: (
            (x @ _weights().T)
            * ((1 - 0.9 ** np.arange(1, T + 1)) / (1 - 0.9 ** np.arange(2, T + 2))).astype(np.float32)
        ),
    },
)


WINDOWED_MEAN = Formula(
    name="windowed_mean",
    reference=lambda x: like(sum(f32(x)[:, i : i + T - 2] for i in range(3)) / 3, x),
    args=SERIES,
    honest={
        "reduce_window": lambda x: jax.lax.reduce_window(x, 0.0, jax.lax.add, (1, 3), (1, 1), "VALID") / 3,
        "convolution": lambda x: jax.vmap(lambda row: jnp.convolve(row, jnp.ones(3) / 3, mode="valid"))(x),
        "stacked": lambda x: jnp.mean(jnp.stack([x[:, :-2], x[:, 1:-1], x[:, 2:]]), 0),
    },
    twins={
        "window_of_four": lambda x: jnp.pad(
            jnp.mean(jnp.stack([x[:, i : i + T - 3] for i in range(4)]), 0), ((0, 0), (0, 1))
        ),
        "centre_twice": lambda x: (x[:, :-2] + 2 * x[:, 1:-1] + x[:, 2:]) / 4,
        "sum": lambda x: x[:, :-2] + x[:, 1:-1] + x[:, 2:],
    },
)


CUMULATIVE_PRODUCT = Formula(
    name="cumulative_product",
    reference=lambda a: like(jnp.cumprod(f32(a), axis=-1), a),
    args={"a": uniform(3, 6, low=0.5, high=1.5)},
    honest={
        "tree": lambda a: jax.lax.associative_scan(jnp.multiply, a, axis=-1),
        "unrolled": lambda a: jnp.stack([jnp.prod(a[:, : i + 1], -1) for i in range(6)], -1),
    },
    twins={
        "exclusive": lambda a: jnp.cumprod(a, -1) / a[:, :1],
        "sum_of_logarithms_base_two": lambda a: jnp.exp(jnp.cumsum(jnp.log2(a), -1)),
        "reversed": lambda a: jnp.cumprod(a[:, ::-1], -1)[:, ::-1],
    },
)

SEGMENTED = {"x": normal(T, 5), "ids": integers(T, high=4)}


def segment_sum(x: Array, ids: Array) -> Array:
    return like(jax.ops.segment_sum(f32(x), ids, num_segments=4), x)


SEGMENT_SUM = Formula(
    name="segment_sum",
    reference=segment_sum,
    args=SEGMENTED,
    honest={
        "one_hot": lambda x, ids: jax.nn.one_hot(ids, 4).T @ x,
        "chosen": lambda x, ids: jnp.stack([jnp.sum(jnp.where((ids == i)[:, None], x, 0), 0) for i in range(4)]),
        "scattered": lambda x, ids: jnp.zeros((4, 5)).at[ids].add(x),
    },
    twins={
        "mean": lambda x, ids: jax.nn.one_hot(ids, 4).T @ x / jnp.maximum(jnp.bincount(ids, length=4), 1)[:, None],
        "last_one_wins": lambda x, ids: jnp.zeros((4, 5)).at[ids].set(x),
        "ids_shifted": lambda x, ids: jax.nn.one_hot((ids + 1) % 4, 4).T @ x,
        "last_segment_empty": lambda x, ids: (jax.nn.one_hot(ids, 4).T @ x).at[3].set(0),
    },
)


def cumlogsumexp(x: Array) -> Array:
    return like(jax.lax.cumlogsumexp(f32(x), axis=1), x)


CUMULATIVE_LOGSUMEXP = Formula(
    name="cumulative_logsumexp",
    reference=cumlogsumexp,
    args={"x": normal(3, 8)},
    honest={
        "tree": lambda x: jax.lax.associative_scan(jnp.logaddexp, x, axis=-1),
        "logarithm_of_cumsum": lambda x: jnp.log(jnp.cumsum(jnp.exp(x), -1)),
    },
    twins={
        "cumsum": lambda x: jnp.cumsum(x, -1),
        "maximum": lambda x: jax.lax.cummax(x, axis=1),
        "of_the_mean": lambda x: jnp.log(jnp.cumsum(jnp.exp(x), -1) / jnp.arange(1, 9)),
    },
)

ALL = (CUMSUM, LINEAR_RECURRENCE, MOVING_AVERAGE, WINDOWED_MEAN, CUMULATIVE_PRODUCT, SEGMENT_SUM, CUMULATIVE_LOGSUMEXP)
