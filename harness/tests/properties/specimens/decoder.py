"""A decoder of two layers over tokens: RMSNorm, rotary positions, grouped queries, SwiGLU or experts; and its leaks."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from tests.properties.specimens.specimen import (
    LENGTH,
    SEGMENTS,
    TOKENS,
    VOCABULARY,
    WIDTH,
    Specimen,
    arrays,
    pair,
    twins,
)

LAYERS, HEADS, SIZE, HIDDEN = 2, 4, 4, 12
WEIGHTS: dict[str, tuple[int, ...]] = {
    "table": (VOCABULARY, WIDTH),
    "qs": (LAYERS, WIDTH, HEADS, SIZE),
    "kvs": (LAYERS, 2, WIDTH, HEADS // 2, SIZE),
    "outs": (LAYERS, HEADS, SIZE, WIDTH),
    "ups": (LAYERS, 2, WIDTH, HIDDEN),
    "downs": (LAYERS, HIDDEN, WIDTH),
}
Mix = Callable[[Array, Array, Array], Array]


def rms_norm(x: Array, axis: int | tuple[int, ...] = -1) -> Array:
    """Without a scale; `axis` is wrong where it has more than the channels."""
    return x * lax.rsqrt(jnp.mean(x * x, axis=axis, keepdims=True) + 1e-6)


def rope(x: Array) -> Array:
    """Rotates pairs of channels of heads."""
    frequencies = 100.0 ** (-jnp.arange(SIZE // 2) * 2 / SIZE)
    angles = jnp.arange(LENGTH)[:, None, None] * frequencies
    a, b = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([a * jnp.cos(angles) - b * jnp.sin(angles), b * jnp.cos(angles) + a * jnp.sin(angles)], -1)


def dense(q: Array, k: Array, v: Array, mask: Array | None = None) -> Array:
    """Grouped queries: keys and values are repeated."""
    k, v = jnp.repeat(k, 2, axis=2), jnp.repeat(v, 2, axis=2)
    mask = jnp.tril(jnp.ones((LENGTH, LENGTH), bool)) if mask is None else mask
    s = jnp.where(mask, jnp.einsum("bqhd,bkhd->bhqk", q, k) / SIZE**0.5, jnp.finfo(q.dtype).min)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(s), v)


def library(q: Array, k: Array, v: Array) -> Array:
    """As jax has it."""
    return jax.nn.dot_product_attention(q, k, v, is_causal=True)


def mlp(x: Array, up: Array, down: Array) -> Array:
    """SwiGLU."""
    gate, value = jnp.einsum("bsd,ndh->nbsh", x, up)
    return (jax.nn.silu(gate) * value) @ down


def experts(x: Array, up: Array, down: Array) -> Array:
    """Three experts of four hidden channels, of which each token has two."""
    p, chosen = lax.top_k(jax.nn.softmax(x[..., :3]), 2)
    gates = jnp.einsum("bsk,bske->bse", p, jax.nn.one_hot(chosen, 3))
    gate, value = jnp.einsum("bsd,ndh->nbsh", x, up).reshape(2, *x.shape[:2], 3, HIDDEN // 3)
    hidden = jax.nn.silu(gate) * value * gates[..., None]
    return hidden.reshape(*x.shape[:2], HIDDEN) @ down


def layer(x: Array, weights: tuple[Array, ...], *, mix: Mix, feed: Callable[..., Array], axis: Any = -1) -> Array:
    """Attention and its residual, then the channels and theirs."""
    wq, wkv, wo, up, down = weights
    y = rms_norm(x, axis)
    q = rope(jnp.einsum("bsd,dhe->bshe", y, wq))
    k, v = jnp.einsum("bsd,ndhe->nbshe", y, wkv)
    x = x + jnp.einsum("bshe,hed->bsd", mix(q, rope(k), v), wo) / WIDTH
    return x + feed(rms_norm(x), up, down) / WIDTH


def decoder(
    tokens: Array, table: Array, *weights: Array, mix: Mix = dense, feed: Any = mlp, how: str = "scan", axis: Any = -1
) -> Array:
    """The logits; layers in a scan, in a scan of checkpoints, or one after the other."""
    x = table[tokens]
    step = partial(layer, mix=mix, feed=feed, axis=axis)
    if how == "unrolled":
        for i in range(LAYERS):
            x = step(x, tuple(w[i] for w in weights))
    else:
        body = jax.checkpoint(step) if how == "checkpoint" else step
        x, _ = lax.scan(lambda x, w: (body(x, w), None), x, weights)
    return rms_norm(x) @ table.T


def alternating(tokens: Array, table: Array, *weights: Array, full: bool) -> Array:
    """Layers with a window and layers without; what a flag in the scan selects is the past, or all."""
    distance = jnp.arange(LENGTH)[:, None] - jnp.arange(LENGTH)
    local, past = (distance >= 0) & (distance < 4), distance >= 0
    flags = jnp.arange(LAYERS) % 2 == 1

    def step(x: Array, now: tuple[Array, tuple[Array, ...]]) -> tuple[Array, None]:
        mask = jnp.where(now[0], (distance < LENGTH) if full else past, local)
        return layer(x, now[1], mix=partial(dense, mask=mask), feed=mlp), None

    return lax.scan(step, table[tokens], (flags, weights))[0] @ table.T


def smeared(tokens: Array, table: Array, *weights: Array, ahead: int) -> Array:
    """An embedding that has some of the token beside, the next one or the one before."""
    beside = jnp.roll(tokens, -ahead, axis=1)
    edge = jnp.arange(LENGTH) == (LENGTH - 1 if ahead > 0 else 0)
    x = table[tokens] + 0.1 * jnp.where(edge[:, None], 0.0, table[beside])
    for i in range(LAYERS):
        x = layer(x, tuple(w[i] for w in weights), mix=dense, feed=mlp)
    return x @ table.T


def packed_decoder(tokens: Array, table: Array, *weights_and_ids: Array, late: int) -> Array:
    """Documents in a row; the last layer's mask has ids that are late by a token, or all have the same."""
    *weights, ids = weights_and_ids
    past = jnp.tril(jnp.ones((LENGTH, LENGTH), bool))
    x = table[tokens]
    for i in range(LAYERS):
        keys = jnp.roll(ids, -late, axis=1) if i == LAYERS - 1 else ids
        own = jnp.eye(LENGTH, dtype=bool)
        mask = past & ((ids[:, None, :, None] == keys[:, None, None]) | own)
        x = layer(x, tuple(w[i] for w in weights), mix=partial(dense, mask=mask), feed=mlp)
    return x @ table.T


stack = partial(pair, property="causal", arguments=arrays(tokens=TOKENS, **WEIGHTS), on=("tokens",))

DECODER: tuple[Specimen, ...] = (
    *stack("decoder_norm", (partial(decoder, axis=(1, 2)), decoder)),
    *stack("decoder_flags", twins(alternating, full=(True, False))),
    *stack("decoder_smear", twins(smeared, ahead=(1, -1))),
    *stack(
        "decoder_library",
        (
            lambda *a: decoder(*a, mix=lambda q, k, v: jax.nn.dot_product_attention(q, k, v), how="unrolled"),
            partial(decoder, mix=library, how="unrolled"),
        ),
    ),
    *stack(
        "decoder_experts",
        (partial(decoder, feed=experts, how="checkpoint", axis=1), partial(decoder, feed=experts, how="checkpoint")),
    ),
    *pair(
        "decoder_documents",
        twins(packed_decoder, late=(1, 0)),
        "packed",
        arrays(tokens=TOKENS, **WEIGHTS, segment_ids=SEGMENTS),
        on=("tokens",),
        segment_ids="segment_ids",
    ),
)
