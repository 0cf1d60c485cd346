"""Attention that must be causal: masks in every notation, in blocks, through caches, and what goes wrong with each."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from tests.properties.specimens.specimen import LENGTH, WIDTH, X, arrays, pair, twins

BLOCK = 4
INPUTS = arrays(x=X, w=(3, WIDTH, WIDTH))
HEADS = arrays(x=X, w=(3, WIDTH, 2, WIDTH))


def project(x: Array, w: Array) -> Array:
    """Queries, keys and values."""
    return jnp.einsum("bsd,nde->nbse", x, w) / WIDTH**0.5


def heads(x: Array, w: Array) -> Array:
    """Queries, keys and values of two heads, as `jax.nn.dot_product_attention` wants them."""
    return jnp.einsum("bsd,ndhe->nbshe", x, w) / WIDTH**0.5


def scores(q: Array, k: Array) -> Array:
    """Of each query with each key."""
    return jnp.einsum("bqd,bkd->bqk", q, k) / WIDTH**0.5


def weigh(s: Array, v: Array) -> Array:
    """The values, weighed by the softmax of masked scores."""
    return jnp.einsum("bqk,bkd->bqd", jax.nn.softmax(s, axis=-1), v)


def before(offset: int = 0) -> Array:
    """Which key is at or before which query, by the indices of both."""
    return jnp.arange(LENGTH)[:, None] + offset >= jnp.arange(LENGTH)


def tril_attention(x: Array, w: Array, *, diagonal: int) -> Array:
    """Mask of -inf below a diagonal."""
    q, k, v = project(x, w)
    mask = jnp.tril(jnp.ones((LENGTH, LENGTH), bool), diagonal)
    return weigh(jnp.where(mask, scores(q, k), -jnp.inf), v)


def additive_attention(x: Array, w: Array, *, offset: int) -> Array:
    """Mask of -1e9 that is added."""
    q, k, v = project(x, w)
    return weigh(scores(q, k) + (1.0 - before(offset).astype(x.dtype)) * -1e9, v)


def local_and_global_heads(x: Array, w: Array, *, full: bool) -> Array:
    """The first head has a window; the other one sees the whole past, or all where its mask was forgotten."""
    q, k, v = heads(x, w)
    s = jnp.einsum("bqhd,bkhd->bhqk", q, k)
    distance = jnp.arange(LENGTH)[:, None] - jnp.arange(LENGTH)
    local = (distance >= 0) & (distance < 4)
    masks = jnp.stack([local, jnp.ones_like(local) if full else distance >= 0])
    s = jnp.where(masks, s, jnp.finfo(s.dtype).min)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(s), v)


def wrong_axis(x: Array, w: Array, *, axis: int) -> Array:
    """The softmax is over keys, or over the queries that have a key in common."""
    q, k, v = project(x, w)
    p = jax.nn.softmax(jnp.where(before(), scores(q, k), -jnp.inf), axis=axis)
    return p @ v


def shift_before_mask(x: Array, w: Array) -> Array:
    """The mathematics is causal; the maximum that is subtracted is over all keys, and with it the rounding."""
    q, k, v = project(x, w)
    s = scores(q, k)
    p = jnp.where(before(), jnp.exp(s - jnp.max(s, axis=-1, keepdims=True)), 0.0)
    return (p @ v) / jnp.sum(p, axis=-1, keepdims=True)


def shift_after_mask(x: Array, w: Array) -> Array:
    """The probabilities are masked; the maximum is over the keys that remain."""
    q, k, v = project(x, w)
    s = scores(q, k)
    highest = jnp.max(s, axis=-1, keepdims=True, where=before(), initial=-1e30)
    p = jnp.where(before(), jnp.exp(jnp.minimum(s - highest, 0.0)), 0.0)
    return (p @ v) / jnp.sum(p, axis=-1, keepdims=True)


def earlier_only(x: Array, w: Array, *, guard: bool) -> Array:
    """Keys strictly before the query: the first query has none, and -1e30 everywhere is a mean over all keys."""
    q, k, v = project(x, w)
    mask = before(-1)
    p = jax.nn.softmax(jnp.where(mask, scores(q, k), -1e30))
    return (jnp.where(mask, p, 0.0) if guard else p) @ v


def sparse_keys(x: Array, w: Array, *, mask_first: bool) -> Array:
    """Each query picks its best four keys; future ones take places where the scores are not masked first."""
    q, k, v = project(x, w)
    s = scores(q, k)
    masked = jnp.where(before(), s, -jnp.inf)
    best = lax.top_k(masked if mask_first else s, 4)[0][..., -1:]
    own = jnp.eye(LENGTH, dtype=bool)
    return weigh(jnp.where((s >= best) | own, masked, -jnp.inf), v)


def flash(x: Array, w: Array, *, low: float, element: bool) -> Array:
    """Online softmax, a scan over blocks of keys; on the diagonal a block's mask is not enough."""
    q, k, v = project(x, w)
    rows = jnp.arange(LENGTH)

    def step(carry: tuple[Array, Array, Array], block: tuple[Array, ...]) -> tuple[Any, None]:
        highest, total, out = carry
        start, keys, values = block
        columns = start + jnp.arange(BLOCK)
        mask = rows[:, None] >= columns if element else (rows // BLOCK)[:, None] >= columns // BLOCK
        s = jnp.where(mask, jnp.einsum("bqd,bkd->bqk", q, keys), low)
        new = jnp.maximum(highest, s.max(-1))
        p, kept = jnp.exp(s - new[..., None]), jnp.exp(highest - new)
        return (new, total * kept + p.sum(-1), out * kept[..., None] + p @ values), None

    blocks = [jnp.moveaxis(a.reshape(2, -1, BLOCK, WIDTH), 1, 0) for a in (k, v)]
    zero = jnp.zeros(q.shape[:2])
    (_, total, out), _ = lax.scan(step, (zero + low, zero, jnp.zeros_like(q)), (rows[::BLOCK], *blocks))
    return out / total[..., None]


def blockwise(x: Array, w: Array, *, local: bool) -> Array:
    """Loops over the blocks of keys for each block of queries; with a mask of local indices each block is causal."""
    q, k, v = project(x, w)
    places = jnp.arange(BLOCK)

    def of_block(i: Array) -> Array:
        mine = lax.dynamic_slice_in_dim(q, i * BLOCK, BLOCK, 1)

        def add(j: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
            keys, values = (lax.dynamic_slice_in_dim(a, j * BLOCK, BLOCK, 1) for a in (k, v))
            shift = 0 if local else (i - j) * BLOCK
            p = jnp.exp(jnp.where(places[:, None] + shift >= places, scores(mine, keys), -jnp.inf))
            return carry[0] + p @ values, carry[1] + p.sum(-1)

        out, total = lax.fori_loop(0, LENGTH // BLOCK, add, (jnp.zeros_like(mine), jnp.zeros(mine.shape[:2])))
        return out / total[..., None]

    return jnp.concatenate([of_block(jnp.int32(i)) for i in range(LENGTH // BLOCK)], axis=1)


def library(x: Array, w: Array, **options: Any) -> Array:
    """Attention as jax has it."""
    q, k, v = heads(x, w)
    return jax.nn.dot_product_attention(q, k, v, **options)


def decode(x: Array, w: Array, cache: Array, *, ahead: int) -> Array:
    """Token by token; the cache holds what another request left, and each step writes its slot before it reads."""
    q, k, v = project(x, w)

    def step(cache: Array, t: Array) -> tuple[Array, Array]:
        row = jnp.stack([k[:, t], v[:, t]], axis=-2)
        cache = lax.dynamic_update_slice_in_dim(cache, row[:, None], t, axis=1)
        s = jnp.einsum("bd,bkd->bk", q[:, t], cache[:, :, 0])
        p = jax.nn.softmax(jnp.where(jnp.arange(LENGTH) <= t + ahead, s, -jnp.inf))
        return cache, jnp.einsum("bk,bkd->bd", p, cache[:, :, 1])

    _, out = lax.scan(step, cache, jnp.arange(LENGTH))
    return jnp.swapaxes(out, 0, 1)


@jax.custom_vjp
def fused(q: Array, k: Array, v: Array) -> Array:
    """Attention with a hand-written gradient, which forgets the mask."""
    return weigh(jnp.where(before(), scores(q, k), -jnp.inf), v)


def _fused_forward(q: Array, k: Array, v: Array) -> tuple[Array, tuple[Array, Array, Array]]:
    return fused(q, k, v), (q, k, v)


def _fused_backward(kept: tuple[Array, Array, Array], given: Array, *, masked: bool = False) -> tuple[Array, ...]:
    q, k, v = kept
    p = jax.nn.softmax(jnp.where(before() | (not masked), scores(q, k), -jnp.inf))
    dp = jnp.einsum("bqd,bkd->bqk", given, v)
    ds = p * (dp - jnp.sum(p * dp, axis=-1, keepdims=True)) / WIDTH**0.5
    return ds @ k, jnp.swapaxes(ds, 1, 2) @ q, jnp.swapaxes(p, 1, 2) @ given


@jax.custom_vjp
def fused_masked(q: Array, k: Array, v: Array) -> Array:
    """Attention with a hand-written gradient."""
    return weigh(jnp.where(before(), scores(q, k), -jnp.inf), v)


fused.defvjp(_fused_forward, _fused_backward)
fused_masked.defvjp(_fused_forward, partial(_fused_backward, masked=True))

ATTENTION = (
    *pair("mask_off_by_one", twins(tril_attention, diagonal=(1, 0)), "causal", INPUTS),
    *pair("additive_mask", twins(additive_attention, offset=(1, 0)), "causal", INPUTS),
    *pair("global_heads", twins(local_and_global_heads, full=(True, False)), "causal", HEADS),
    *pair("softmax_axis", twins(wrong_axis, axis=(-2, -1)), "causal", INPUTS),
    *pair("softmax_shift", (shift_before_mask, shift_after_mask), "causal", INPUTS),
    *pair("query_without_keys", twins(earlier_only, guard=(False, True)), "causal", INPUTS),
    *pair("sparse_keys", twins(sparse_keys, mask_first=(False, True)), "causal", INPUTS),
    *pair("flash_infinity", twins(partial(flash, low=-jnp.inf), element=(False, True)), "causal", INPUTS),
    *pair("flash_finite", twins(partial(flash, low=-1e30), element=(False, True)), "causal", INPUTS),
    *pair("blockwise", twins(blockwise, local=(True, False)), "causal", INPUTS),
    *pair(
        "library_attention",
        (partial(library, local_window_size=(3, 1)), partial(library, is_causal=True)),
        "causal",
        HEADS,
    ),
    *pair(
        "cache_before_written",
        twins(decode, ahead=(1, 0)),
        "causal",
        arrays(x=X, w=(3, WIDTH, WIDTH), cache=(2, LENGTH, 2, WIDTH)),
        on=("x", "cache"),
    ),
    *pair(
        "backward_without_mask",
        (lambda x, w: fused(*project(x, w)), lambda x, w: fused_masked(*project(x, w))),
        "causal",
        INPUTS,
        gradient=True,
    ),
)
