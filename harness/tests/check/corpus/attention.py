"""Attention: explicit, in blocks with an online softmax, grouped, capped, masked in several ways, and linear."""

import math

import jax
import jax.numpy as jnp
import numpy as np

from tests.check.corpus.formula import Array, Formula, f32, like, normal

B, T, H, D = 2, 8, 2, 8
QKV = {"q": normal(B, T, H, D), "k": normal(B, T, H, D), "v": normal(B, T, H, D)}
CAUSAL = np.tril(np.ones((T, T), bool))


def attend(
    q: Array, k: Array, v: Array, mask: np.ndarray | None, hidden: float = -jnp.inf, scale: float = D**-0.5
) -> Array:
    """Softmax attention with a mask of what each query sees."""
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) * scale
    if mask is not None:
        scores = jnp.where(mask, scores, hidden)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, axis=-1), v)


def attention(q: Array, k: Array, v: Array) -> Array:
    return like(attend(f32(q), f32(k), f32(v), None), q)


def in_blocks(q: Array, k: Array, v: Array) -> Array:
    """Keys in blocks of two, with a running maximum and normaliser (Milakov and Gimelshein 2018)."""
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(D)
    most = jnp.full(scores.shape[:-1], -jnp.inf)
    total, out = jnp.zeros(scores.shape[:-1]), jnp.zeros((B, H, T, D))
    for start in range(0, T, 2):
        part = scores[..., start : start + 2]
        new = jnp.maximum(most, jax.lax.stop_gradient(part.max(-1)))
        e, correction = jnp.exp(part - new[..., None]), jnp.exp(most - new)
        total = total * correction + e.sum(-1)
        out = out * correction[..., None] + jnp.einsum("bhqk,bkhd->bhqd", e, v[:, start : start + 2])
        most = new
    return jnp.swapaxes(out / total[..., None], 1, 2)


def no_correction(q: Array, k: Array, v: Array) -> Array:
    """Blocks whose earlier sums are not rescaled by the new maximum."""
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(D)
    total, out = jnp.zeros(scores.shape[:-1]), jnp.zeros((B, H, T, D))
    for start in range(0, T, 2):
        part = scores[..., start : start + 2]
        e = jnp.exp(part - part.max(-1, keepdims=True))
        total = total + e.sum(-1)
        out = out + jnp.einsum("bhqk,bkhd->bhqd", e, v[:, start : start + 2])
    return jnp.swapaxes(out / total[..., None], 1, 2)


ATTENTION = Formula(
    name="attention",
    reference=attention,
    args=QKV,
    honest={
        "query_scaled": lambda q, k, v: attend(q * D**-0.5, k, v, None, scale=1.0),
        "in_blocks": in_blocks,
        "library": lambda q, k, v: jax.nn.dot_product_attention(q, k, v),
        "normalised_last": lambda q, k, v: (
            jnp.einsum("bhqk,bkhd->bqhd", jnp.exp(jnp.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(D)), v)
            / jnp.einsum("bhqk->bqh", jnp.exp(jnp.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(D)))[..., None]
        ),
    },
    twins={
        "not_scaled": lambda q, k, v: attend(q, k, v, None, scale=1.0),
        "scaled_by_the_size": lambda q, k, v: attend(q, k, v, None, scale=1 / D),
        "causal": lambda q, k, v: attend(q, k, v, CAUSAL),
        "over_the_queries": lambda q, k, v: jnp.einsum(
            "bhqk,bkhd->bqhd", jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k) * D**-0.5, 2), v
        ),
        "no_correction": no_correction,
        "weights_without_gradient": lambda q, k, v: attend(jax.lax.stop_gradient(q), jax.lax.stop_gradient(k), v, None),
        "heads_mixed": lambda q, k, v: attend(q, k, jnp.roll(v, 1, 2), None),
    },
)


def causal(q: Array, k: Array, v: Array) -> Array:
    return like(attend(f32(q), f32(k), f32(v), CAUSAL), q)


CAUSAL_ATTENTION = Formula(
    name="causal_attention",
    reference=causal,
    args=QKV,
    honest={
        # Every row sees itself, so that no row is hidden as a whole and the lowest number serves as -inf.
        "lowest_number": lambda q, k, v: attend(q, k, v, CAUSAL, hidden=float(np.finfo(np.float32).min)),
        "library": lambda q, k, v: jax.nn.dot_product_attention(q, k, v, is_causal=True),
        "bias": lambda q, k, v: jnp.einsum(
            "bhqk,bkhd->bqhd",
            jax.nn.softmax(
                jnp.einsum("bqhd,bkhd->bhqk", q * D**-0.5, k) + np.where(CAUSAL, 0, -np.inf).astype(np.float32), -1
            ),
            v,
        ),
        "row_by_row": lambda q, k, v: jnp.concatenate(
            [attend(q[:, i : i + 1], k[:, : i + 1], v[:, : i + 1], None) for i in range(T)], 1
        ),
    },
    twins={
        "diagonal_hidden": lambda q, k, v: attend(
            q, k, v, np.tril(CAUSAL, -1) | np.eye(T, k=T - 1).T.astype(bool) | (np.arange(T) == 0)
        ),
        "one_too_many": lambda q, k, v: attend(q, k, v, np.tril(np.ones((T, T), bool), 1)),
        "transposed": lambda q, k, v: attend(q, k, v, CAUSAL.T),
        "hidden_by_ten": lambda q, k, v: attend(q, k, v, CAUSAL, hidden=-10.0),
        "mask_after_softmax": lambda q, k, v: jnp.einsum(
            "bhqk,bkhd->bqhd", jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q * D**-0.5, k), -1) * CAUSAL, v
        ),
    },
)

WINDOW = CAUSAL & ~np.tril(np.ones((T, T), bool), -3)


def _window(ahead: int, back: int) -> np.ndarray:
    far = np.arange(T)[:, None] - np.arange(T)[None, :]
    return np.asarray((far >= -ahead) & (far < back))


SLIDING_WINDOW = Formula(
    name="sliding_window",
    reference=lambda q, k, v: like(attend(f32(q), f32(k), f32(v), WINDOW), q),
    args=QKV,
    honest={
        "distances": lambda q, k, v: attend(q, k, v, _window(0, 3), hidden=float(np.finfo(np.float32).min)),
        "library": lambda q, k, v: jax.nn.dot_product_attention(q, k, v, is_causal=True, local_window_size=(2, 0)),
    },
    twins={
        "one_wider": lambda q, k, v: attend(q, k, v, _window(0, 4)),
        "one_narrower": lambda q, k, v: attend(q, k, v, _window(0, 2)),
        "both_ways": lambda q, k, v: attend(q, k, v, _window(2, 3)),
    },
)

GROUPED = {"q": normal(B, T, 4, D), "k": normal(B, T, 2, D), "v": normal(B, T, 2, D)}


def grouped(q: Array, k: Array, v: Array) -> Array:
    return like(attend(f32(q), jnp.repeat(f32(k), 2, 2), jnp.repeat(f32(v), 2, 2), CAUSAL), q)


def by_group(q: Array, k: Array, v: Array) -> Array:
    scores = jnp.einsum("bqngd,bknd->bngqk", q.reshape(B, T, 2, 2, D), k) / math.sqrt(D)
    weights = jax.nn.softmax(jnp.where(CAUSAL, scores, -jnp.inf), -1)
    return jnp.einsum("bngqk,bknd->bqngd", weights, v).reshape(q.shape)


GROUPED_QUERIES = Formula(
    name="grouped_queries",
    reference=grouped,
    args=GROUPED,
    honest={
        "by_group": by_group,
        "library": lambda q, k, v: jax.nn.dot_product_attention(q, k, v, is_causal=True),
        "taken": lambda q, k, v: attend(q, k[:, :, np.arange(4) // 2], v[:, :, np.arange(4) // 2], CAUSAL),
    },
    twins={
        "tiled": lambda q, k, v: attend(q, jnp.tile(k, (1, 1, 2, 1)), jnp.tile(v, (1, 1, 2, 1)), CAUSAL),
        "values_tiled": lambda q, k, v: attend(q, jnp.repeat(k, 2, 2), jnp.tile(v, (1, 1, 2, 1)), CAUSAL),
        "one_group": lambda q, k, v: attend(q, k[:, :, [0, 0, 0, 0]], v[:, :, [0, 0, 0, 0]], CAUSAL),
    },
)


def _capped(q: Array, k: Array, v: Array, cap: float, mask_first: bool = False) -> Array:
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) * D**-0.5
    if mask_first:
        scores = cap * jnp.tanh(jnp.where(CAUSAL, scores, -jnp.inf) / cap)
    else:
        scores = jnp.where(CAUSAL, cap * jnp.tanh(scores / cap), -jnp.inf)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, -1), v)


def capped(q: Array, k: Array, v: Array) -> Array:
    return like(_capped(f32(q), f32(k), f32(v), 5.0), q)


CAPPED_ATTENTION = Formula(
    name="capped_attention",
    reference=capped,
    args=QKV,
    honest={
        "cap_in_the_scale": lambda q, k, v: jnp.einsum(
            "bhqk,bkhd->bqhd",
            jax.nn.softmax(
                jnp.where(CAUSAL, 5.0 * jnp.tanh(jnp.einsum("bqhd,bkhd->bhqk", q, k) / (5.0 * math.sqrt(D))), -jnp.inf)
            ),
            v,
        )
    },
    twins={
        "cap_of_fifty": lambda q, k, v: _capped(q, k, v, 50.0),
        "mask_before_the_cap": lambda q, k, v: _capped(q, k, v, 5.0, mask_first=True),
        "no_cap": lambda q, k, v: attend(q, k, v, CAUSAL),
    },
)


def with_sink(q: Array, k: Array, v: Array) -> Array:
    scores = jnp.einsum("bqhd,bkhd->bhqk", f32(q), f32(k)) * D**-0.5
    padded = jnp.pad(scores, ((0, 0),) * 3 + ((1, 0),))
    return like(jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(padded, -1)[..., 1:], f32(v)), q)


def _by_normaliser(q: Array, k: Array, v: Array, extra: float) -> Array:
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) * D**-0.5
    e = jnp.exp(scores)
    return jnp.einsum("bhqk,bkhd->bqhd", e / (e.sum(-1, keepdims=True) + extra), v)


SINK = Formula(
    name="attention_sink",
    reference=with_sink,
    args=QKV,
    honest={"one_in_the_normaliser": lambda q, k, v: _by_normaliser(q, k, v, 1.0)},
    twins={
        "without_sink": lambda q, k, v: _by_normaliser(q, k, v, 0.0),
        "two_sinks": lambda q, k, v: _by_normaliser(q, k, v, 2.0),
    },
)


def linear(q: Array, k: Array, v: Array) -> Array:
    return like(jnp.einsum("bqk,bkd->bqd", jnp.einsum("bqd,bkd->bqk", f32(q), f32(k)) * CAUSAL, f32(v)), q)


def recurrent(q: Array, k: Array, v: Array) -> Array:
    """The state is the sum of outer products of keys and values so far."""

    def step(state: Array, now: Array) -> tuple[Array, Array]:
        query, key, value = now
        state = state + key[:, :, None] * value[:, None, :]
        return state, jnp.einsum("bd,bde->be", query, state)

    along = tuple(jnp.swapaxes(one, 0, 1) for one in (q, k, v))
    return jnp.swapaxes(jax.lax.scan(step, jnp.zeros((B, D, D)), along)[1], 0, 1)


def late_state(q: Array, k: Array, v: Array) -> Array:
    """The same, reading the state before it is updated."""
    state = jnp.cumsum(k[..., :, None] * v[..., None, :], 1) - k[..., :, None] * v[..., None, :]
    return jnp.einsum("btd,btde->bte", q, state)


LINEAR_ATTENTION = Formula(
    name="linear_attention",
    reference=linear,
    args={name: normal(B, T, D) for name in "qkv"},
    honest={
        "recurrent": recurrent,
        "states": lambda q, k, v: jnp.einsum("btd,btde->bte", q, jnp.cumsum(k[..., :, None] * v[..., None, :], 1)),
    },
    twins={
        "late_state": late_state,
        "sees_all": lambda q, k, v: jnp.einsum("bqd,bde->bqe", q, jnp.einsum("bkd,bke->bde", k, v)),
        "scaled": lambda q, k, v: jnp.einsum("bqk,bkd->bqd", jnp.einsum("bqd,bkd->bqk", q, k) * CAUSAL / D, v),
    },
)

ALL = (ATTENTION, CAUSAL_ATTENTION, SLIDING_WINDOW, GROUPED_QUERIES, CAPPED_ATTENTION, SINK, LINEAR_ATTENTION)
