"""Attention as its definition: all scores, a mask array over all of them, softmax, a weighted sum.

Source: Vaswani et al., "Attention Is All You Need", 2017 (arXiv 1706.03762), section 3.2.1; heads that share keys and
values: Ainslie et al., "GQA", 2023 (arXiv 2305.13245), section 2.2; the window: Beltagy et al., "Longformer", 2020
(arXiv 2004.05150), section 3.1; masks of packed documents: Raffel et al., T5, 2020 (arXiv 1910.10683), section 3.5.2.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp


def explicit_mask(
    query: jax.Array,
    key: jax.Array,
    value: jax.Array,
    positions: jax.Array,
    segments: jax.Array,
    *,
    window: int = 0,
    scale: float | None = None,
    block: int = 0,
    balanced: bool = False,
) -> jax.Array:
    """Causal attention within documents, grouped heads, and a mask of every query against every key.

    Equivalent to `softmax(where(mask, scale * query @ key.T, -inf)) @ value` per head, where query `i` sees key `j` if
    `segments` are equal, `positions[j] <= positions[i]` and `window == 0 or positions[i] - positions[j] < window`.
    The order of tokens along the sequence is free: only positions and segments count. A token always sees itself.
    Padding is segment 0, and nothing else about it is special: it sees padding of its own row.

    Args:
        query: `[batch, seq, heads, head_dim]`, floating point, finite.
        key, value: `[batch, seq, kv_heads, head_dim]`; head `h` attends to `h // (heads // kv_heads)`.
        positions: int `[batch, seq]`, of each token in its row or in its document.
        segments: int `[batch, seq]`, the number of each token's document; 0 is padding.
        window: how many positions a token sees back, itself included; 0 sees all.
        scale: of the scores; None for `head_dim ** -0.5`.
        block: keys per block of the blockwise forms, 0 for all; not used here, one signature serves all forms.
        balanced: whether tokens are in load-balanced order over the mesh axis `context`; not used here.

    Returns:
        `[batch, seq, heads, head_dim]` in the dtype of `query`, split as it; softmax and sums in at least float32.

    Raises:
        ValueError: shapes that do not fit, heads that do not divide, positions or segments that are not integers, a
            negative window, a scale that is not finite, a block that does not divide the sequence, or a balanced
            sequence that does not divide into two chunks per shard.
    """
    scale = _check(query, key, value, positions, segments, window, scale, block, balanced)

    def attend(
        query: jax.Array, key: jax.Array, value: jax.Array, positions: jax.Array, segments: jax.Array
    ) -> jax.Array:
        wide = jnp.promote_types(query.dtype, jnp.float32)
        sharing = query.shape[2] // key.shape[2]
        keys, values = (jnp.repeat(x.astype(wide), sharing, axis=2) for x in (key, value))
        scores = scale * jnp.einsum("bqhd,bkhd->bhqk", query.astype(wide), keys)
        back = positions[:, :, None] - positions[:, None, :]
        mask = (segments[:, :, None] == segments[:, None, :]) & (back >= 0)
        if window:
            mask &= back < window
        weights = jax.nn.softmax(jnp.where(mask[:, None], scores, -jnp.inf), axis=-1)
        return jnp.einsum("bhqk,bkhd->bqhd", weights, values).astype(query.dtype)

    # Keys that are split over devices meet all queries: where shardings are part of types, the compiler places this.
    placed = jax.sharding.auto_axes(attend, out_sharding=jax.typeof(query).sharding)
    out: jax.Array = placed(query, key, value, positions, segments)
    return out


def _check(
    query: jax.Array,
    key: jax.Array,
    value: jax.Array,
    positions: jax.Array,
    segments: jax.Array,
    window: int,
    scale: float | None,
    block: int,
    balanced: bool,
) -> float:
    """The scale, after the checks that all forms share."""
    if query.ndim != 4 or key.shape != value.shape or key.ndim != 4 or key.shape[::3] != query.shape[::3]:
        raise ValueError(
            f"query, key and value have shapes {query.shape}, {key.shape} and {value.shape}; expected [batch, seq, "
            "heads, head_dim] and twice [batch, seq, kv_heads, head_dim]"
        )
    if key.shape[1] != query.shape[1] or not positions.shape == segments.shape == query.shape[:2]:
        raise ValueError(
            f"key, positions and segments have shapes {key.shape}, {positions.shape} and {segments.shape}; expected "
            f"{query.shape[:2]}, one token each"
        )
    if query.shape[2] % key.shape[2]:
        raise ValueError(f"heads are {query.shape[2]}; expected a multiple of the {key.shape[2]} kv_heads")
    for name, array in (("positions", positions), ("segments", segments)):
        if not jnp.issubdtype(array.dtype, jnp.integer):
            raise ValueError(f"{name} have dtype {array.dtype}; expected an integer dtype")
    if window < 0:
        raise ValueError(f"window is {window}; expected 0 for all positions, or at least 1")
    if scale is not None and not math.isfinite(scale):
        raise ValueError(f"scale is {scale}; expected a finite number or None")
    if block < 0 or (block and query.shape[1] % block):
        raise ValueError(f"block is {block}; expected 0 or a divisor of the sequence's {query.shape[1]} tokens")
    mesh = jax.sharding.get_abstract_mesh()
    chunks = 2 * mesh.shape.get("context", 1)
    if balanced and query.shape[1] % chunks:
        raise ValueError(f"the balanced sequence has {query.shape[1]} tokens; expected a multiple of {chunks}")
    return query.shape[3] ** -0.5 if scale is None else scale
