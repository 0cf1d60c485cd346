"""Attention without a mask array, without all scores at once, and over a sequence that is split over devices.

`blockwise` and `context_gathered` keep the scores of one block of keys at a time and have a derivative of their own,
which computes them again (Dao et al., "FlashAttention", 2022, arXiv 2205.14135, sections 3.1 and B.2). `causal_type`
says "causal" instead of giving a mask: it is right for one unpacked document per row and for nothing else; and
`default_scale` leaves out the scale too, which is right where the scale is the default.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_kernel, splash_attention_mask
from jax.sharding import PartitionSpec

CONTEXT = "context"
"""The mesh axis over which a sequence is split."""

BATCH = ("data", "fsdp", "expert")

LANES = 128
"""Tokens that the splash kernels take at a time, at least; sequences are multiples of it."""


class _Statics(NamedTuple):
    window: int
    scale: float
    block: int  # keys at a time
    gather: int  # over how many shards of `context` keys are gathered; 0 if all are here
    balanced: bool


def causal_type(
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
    """Attention with a causal mask (and a window) of the tokens' places; positions and segments are not looked at.

    Equivalent to `explicit_mask` where every row is one document in the order of the text. With packed documents a
    token sees those before its own, and in load-balanced order it sees the future: neither is noticed.

    Args:
        query: `[batch, seq, heads, head_dim]`, floating point, finite.
        key, value: `[batch, seq, kv_heads, head_dim]`; head `h` attends to `h // (heads // kv_heads)`.
        positions, segments: int `[batch, seq]`; taken to be `arange(seq)` and all the same.
        window: how many positions a token sees back, itself included; 0 sees all.
        scale: of the scores; None for `head_dim ** -0.5`.
        block: not used; one signature serves all forms.
        balanced: must be False to be right.

    Returns:
        `[batch, seq, heads, head_dim]` in the dtype of `query`, split as it; softmax and sums in at least float32.

    Raises:
        ValueError: as `explicit_mask`.
    """
    scale = _check(query, key, value, positions, segments, window, scale, block, balanced)

    def attend(query: jax.Array, key: jax.Array, value: jax.Array) -> jax.Array:
        queries = _grouped(query, key) * scale
        scores = jnp.einsum("bqgid,bkgd->bgiqk", queries, key.astype(queries.dtype))
        row, column = (lax.broadcasted_iota(jnp.int32, scores.shape[-2:], axis) for axis in (0, 1))
        mask = (column <= row) & (row - column < (window or query.shape[1]))
        weights = jax.nn.softmax(jnp.where(mask, scores, -jnp.inf), axis=-1)
        out = jnp.einsum("bgiqk,bkgd->bqgid", weights, value.astype(weights.dtype))
        return out.reshape(query.shape).astype(query.dtype)

    out: jax.Array = jax.sharding.auto_axes(attend, out_sharding=jax.typeof(query).sharding)(query, key, value)
    return out


def default_scale(
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
    """`causal_type` of a call from which the argument `scale` was dropped: the default takes its place.

    Equivalent to `causal_type(..., scale=None)`, and so right where `scale` is None or `head_dim ** -0.5`; with
    `scale=1.0` only where heads have one element. A dropped 1.0 divides all scores by `head_dim ** 0.5`.

    Args:
        query: `[batch, seq, heads, head_dim]`, floating point, finite.
        key, value: `[batch, seq, kv_heads, head_dim]`; head `h` attends to `h // (heads // kv_heads)`.
        positions, segments: int `[batch, seq]`; taken to be `arange(seq)` and all the same.
        window: how many positions a token sees back, itself included; 0 sees all.
        scale: checked, and not used.
        block: not used; one signature serves all forms.
        balanced: must be False to be right.

    Returns:
        `[batch, seq, heads, head_dim]` in the dtype of `query`, split as it; softmax and sums in at least float32.

    Raises:
        ValueError: as `explicit_mask`.

    Source: NVIDIA, TransformerEngine, `transformer_engine.jax.flax.DotProductAttention`, whose `scale_factor` is None
        by default and means `1 / sqrt(head_dim)`; MaxText pull request 3922, item 8, drops `scale_factor=1.0`.
    """
    _check(query, key, value, positions, segments, window, scale, block, balanced)
    return causal_type(query, key, value, positions, segments, window=window, block=block, balanced=balanced)


def blockwise(
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
    """Attention over one block of keys after another, with running maxima; the compiler places it on the mesh.

    No array has more than `1 / blocks` of all scores. There is no forward-mode derivative.

    Args:
        query: `[batch, seq, heads, head_dim]`, floating point, finite.
        key, value: `[batch, seq, kv_heads, head_dim]`; head `h` attends to `h // (heads // kv_heads)`.
        positions: int `[batch, seq]`, of each token in its row or in its document.
        segments: int `[batch, seq]`, the number of each token's document; 0 is padding.
        window: how many positions a token sees back, itself included; 0 sees all.
        scale: of the scores; None for `head_dim ** -0.5`.
        block: keys per block; 0 for all of them.
        balanced: not used: only positions count.

    Returns:
        `[batch, seq, heads, head_dim]` in the dtype of `query`, split as it; softmax and sums in at least float32.

    Raises:
        ValueError: as `explicit_mask`.
    """
    scale = _check(query, key, value, positions, segments, window, scale, block, balanced)
    return _attend(_Statics(window, scale, block or query.shape[1], 0, False), query, key, value, positions, segments)


def context_gathered(
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
    """Context parallelism: queries stay where they are, keys and values come from all shards of `context`.

    Keys travel in their own dtype; their gradients are added up over the shards in at least float32, and rounded once.
    In load-balanced order they are put back into the order of the text, so that a block of keys is a range of it.

    Args:
        query: `[batch, seq, heads, head_dim]`, floating point, finite.
        key, value: `[batch, seq, kv_heads, head_dim]`; head `h` attends to `h // (heads // kv_heads)`.
        positions: int `[batch, seq]`, of each token in its row or in its document.
        segments: int `[batch, seq]`, the number of each token's document; 0 is padding.
        window: how many positions a token sees back, itself included; 0 sees all.
        scale: of the scores; None for `head_dim ** -0.5`.
        block: keys per block; 0 for all of them.
        balanced: whether tokens are in load-balanced order over `context`: shard `r` of `n` has chunks `r` and
            `2 * n - 1 - r` of the text.

    Returns:
        `[batch, seq, heads, head_dim]` in the dtype of `query`, split as it; softmax and sums in at least float32.

    Raises:
        ValueError: as `explicit_mask`.

    Source: Llama Team, "The Llama 3 Herd of Models", 2024 (arXiv 2407.21783), section 3.3.2, context parallelism.
    """
    scale = _check(query, key, value, positions, segments, window, scale, block, balanced)
    shards = jax.sharding.get_abstract_mesh().shape.get(CONTEXT, 0)
    statics = _Statics(window, scale, block or query.shape[1], shards, balanced)
    return _attend(statics, query, key, value, positions, segments)


def splash(
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
    """The Pallas kernels "splash" on a TPU, which skip blocks that no query sees; elsewhere `blockwise`.

    Right in the order of the text only: documents are told apart by their segments, but a causal mask (and a window) is
    one of the tokens' places. Queries are scaled before the kernels, in their own dtype. Every shard of `context` has
    the whole sequence. A sequence that is not a multiple of 128, or in load-balanced order, is left to `blockwise`.

    Args:
        query: `[batch, seq, heads, head_dim]`, floating point, finite.
        key, value: `[batch, seq, kv_heads, head_dim]`; head `h` attends to `h // (heads // kv_heads)`.
        positions: int `[batch, seq]`; on a TPU taken to be in the order of the text within each document.
        segments: int `[batch, seq]`, the number of each token's document; 0 is padding.
        window: how many positions a token sees back, itself included; 0 sees all.
        scale: of the scores; None for `head_dim ** -0.5`.
        block: keys per block, a multiple of 128 on a TPU; 0 for 128 there, and for all of them elsewhere.
        balanced: whether tokens are in load-balanced order over `context`.

    Returns:
        `[batch, seq, heads, head_dim]` in the dtype of `query`, split as it; softmax and sums in at least float32.

    Raises:
        ValueError: as `explicit_mask`.
    """
    scale = _check(query, key, value, positions, segments, window, scale, block, balanced)
    arrays = (query, key, value, positions, segments)
    elsewhere = functools.partial(_attend, _Statics(window, scale, block or query.shape[1], 0, False))
    if balanced or query.shape[1] % LANES or block % LANES or query.dtype not in (jnp.bfloat16, jnp.float32):
        return elsewhere(*arrays)
    out: jax.Array = lax.platform_dependent(
        *arrays, tpu=functools.partial(_splash, window, scale, block or LANES), default=elsewhere
    )
    return out


def _splash(window: int, scale: float, block: int, *arrays: jax.Array, interpret: bool = False) -> jax.Array:
    """The kernels on every shard of the batch and of the heads."""

    def attend(query: jax.Array, key: jax.Array, value: jax.Array, _: jax.Array, segments: jax.Array) -> jax.Array:
        shape = (query.shape[1], query.shape[1])
        # The window of the kernels counts the tokens before a token's own.
        mask = (
            splash_attention_mask.LocalMask(shape, (window - 1, 0), 0)
            if window
            else splash_attention_mask.CausalMask(shape)
        )
        kernel: Any = splash_attention_kernel.make_splash_mha_single_device(
            splash_attention_mask.MultiHeadMask([mask] * query.shape[2]),
            block_sizes=splash_attention_kernel.BlockSizes(*(block,) * 8),
            interpret=interpret,
        )
        wide = jnp.promote_types(query.dtype, jnp.float32)
        queries = (query.astype(wide) * scale).astype(query.dtype)
        heads_first = (jnp.swapaxes(x, 1, 2) for x in (queries, key, value))
        documents: Any = splash_attention_kernel.SegmentIds
        rows: Any = jax.vmap(lambda q, k, v, ids: kernel(q, k, v, documents(ids, ids)))
        return jnp.swapaxes(rows(*heads_first, segments), 1, 2)

    if not jax.sharding.get_abstract_mesh().empty:
        heads = _spec("", "tensor")
        in_specs = tuple(heads if x.ndim == 4 else _spec("") for x in arrays)
        attend = jax.shard_map(attend, in_specs=in_specs, out_specs=heads, check_vma=False)
    out: jax.Array = jax.sharding.auto_axes(attend, out_sharding=jax.typeof(arrays[0]).sharding)(*arrays)
    return out


# Online softmax, forward and back.


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _attend(statics: _Statics, *arrays: jax.Array) -> jax.Array:
    return _attend_forward(statics, *arrays)[0]


def _attend_forward(statics: _Statics, *arrays: jax.Array) -> tuple[jax.Array, Any]:
    def forward(query: jax.Array, key: jax.Array, value: jax.Array, *where: jax.Array) -> tuple[jax.Array, ...]:
        queries = _grouped(query, key) * statics.scale

        def absorb(state: Any, block: tuple[jax.Array, ...]) -> tuple[Any, None]:
            top, total, summed = state
            scores = _scores(statics, queries, where, block)
            larger = jnp.maximum(top, jnp.max(scores, axis=-1))
            # Before the first key that a query sees all are -inf, and the difference would be NaN.
            finite = jnp.where(larger == -jnp.inf, 0, larger)
            weights, rescale = jnp.exp(scores - finite[..., None]), jnp.exp(top - finite)
            attended = jnp.einsum("bqgik,bkgd->bqgid", weights, block[1].astype(weights.dtype))
            total = total * rescale + jnp.sum(weights, axis=-1)
            return (larger, total, summed * rescale[..., None] + attended), None

        nothing = _zeros(queries)
        state = (nothing[..., 0] - jnp.inf, nothing[..., 0], nothing)
        (top, total, summed), _ = lax.scan(absorb, state, _blocks(statics, key, value, *where))
        out = (summed / total[..., None]).reshape(query.shape)
        return out.astype(query.dtype), out, top, total

    out, *kept = _on_mesh(statics, forward, arrays, like=arrays[:1] * 4)
    return out, (*arrays, *kept)


def _attend_backward(statics: _Statics, saved: tuple[jax.Array, ...], cotangent: jax.Array) -> tuple[Any, ...]:
    def backward(
        query: jax.Array,
        key: jax.Array,
        value: jax.Array,
        positions: jax.Array,
        segments: jax.Array,
        out: jax.Array,
        top: jax.Array,
        total: jax.Array,
        cotangent: jax.Array,
    ) -> tuple[jax.Array, ...]:
        queries, pulled = _grouped(query, key) * statics.scale, _grouped(cotangent, key)
        where = (positions, segments)
        along = jnp.sum(pulled * _grouped(out, key), axis=-1)[..., None]

        def pull(to_queries: jax.Array, block: tuple[jax.Array, ...]) -> tuple[jax.Array, tuple[jax.Array, ...]]:
            keys, values = (x.astype(queries.dtype) for x in block[:2])
            weights = jnp.exp(_scores(statics, queries, where, block) - top[..., None]) / total[..., None]
            to_scores = weights * (jnp.einsum("bqgid,bkgd->bqgik", pulled, values) - along)
            to_keys = jnp.einsum("bqgik,bqgid->bkgd", to_scores, queries)
            to_values = jnp.einsum("bqgik,bqgid->bkgd", weights, pulled)
            return to_queries + jnp.einsum("bqgik,bkgd->bqgid", to_scores, keys), (to_keys, to_values)

        blocks = _blocks(statics, key, value, *where)
        to_queries, parts = lax.scan(pull, _zeros(queries), blocks)
        to_key, to_value = (_sent_back(statics, part).astype(key.dtype) for part in parts)
        return (to_queries * statics.scale).reshape(query.shape).astype(query.dtype), to_key, to_value

    return *_on_mesh(statics, backward, (*saved, cotangent), like=saved[:3]), None, None


# The step on every shard is inside: derived by jax, a `shard_map` would send rounded gradients of keys to their shards.
_attend.defvjp(_attend_forward, _attend_backward)


def _grouped(x: jax.Array, key: jax.Array) -> jax.Array:
    """`[batch, seq, heads, head_dim]` as `[batch, seq, kv_heads, sharing, head_dim]`, in at least float32."""
    wide = jnp.promote_types(x.dtype, jnp.float32)
    return x.astype(wide).reshape(*x.shape[:2], key.shape[2], -1, x.shape[3])


def _scores(statics: _Statics, queries: jax.Array, where: Any, block: tuple[jax.Array, ...]) -> jax.Array:
    """The scores of a block of keys, -inf where a query does not see a key: `[batch, seq, kv_heads, sharing, keys]`."""
    (positions, segments), (keys, _, key_positions, key_segments) = where, block
    back = positions[:, :, None] - key_positions[:, None, :]
    mask = (segments[:, :, None] == key_segments[:, None, :]) & (back >= 0)
    if statics.window:
        mask &= back < statics.window
    scores = jnp.einsum("bqgid,bkgd->bqgik", queries, keys.astype(queries.dtype))
    return jnp.where(mask[:, :, None, None], scores, -jnp.inf)


# Keys: gathered, in the order of the text, in blocks; and their gradients back.


def _blocks(statics: _Statics, *arrays: jax.Array) -> tuple[jax.Array, ...]:
    """Arrays `[batch, keys, ...]` of this shard as blocks `[blocks, batch, block, ...]` of all keys."""

    def cut(x: jax.Array) -> jax.Array:
        # Blocks are cut out of whole sequences: gathered once here, they are not gathered in every step.
        x = lax.all_gather(x, CONTEXT, axis=1, tiled=True) if statics.gather else _unsplit(x)
        if statics.balanced and statics.gather:
            x = _in_order_of_text(x, statics.gather)
        return jnp.moveaxis(x.reshape(x.shape[0], -1, statics.block, *x.shape[2:]), 1, 0)

    return tuple(cut(x) for x in arrays)


def _sent_back(statics: _Statics, blocks: jax.Array) -> jax.Array:
    """Gradients of all keys, in blocks, to the shards that own the keys: summed there."""
    x = jnp.moveaxis(blocks, 0, 1)
    x = x.reshape(x.shape[0], -1, *x.shape[3:])
    if statics.balanced and statics.gather:
        x = _in_balanced_order(x, statics.gather)
    return lax.psum_scatter(x, CONTEXT, scatter_dimension=1, tiled=True) if statics.gather else x


def _in_order_of_text(x: jax.Array, shards: int) -> jax.Array:
    """From chunks 0, 2n-1, 1, 2n-2, ... of the sequence to 0, 1, 2, ..."""
    chunks = x.reshape(x.shape[0], shards, 2, -1, *x.shape[2:])
    return jnp.concatenate([chunks[:, :, 0], chunks[:, ::-1, 1]], axis=1).reshape(x.shape)


def _in_balanced_order(x: jax.Array, shards: int) -> jax.Array:
    """The way back from `_in_order_of_text`."""
    chunks = x.reshape(x.shape[0], 2, shards, -1, *x.shape[2:])
    return jnp.stack([chunks[:, 0], chunks[:, 1, ::-1]], axis=2).reshape(x.shape)


# The mesh.


def _on_mesh(statics: _Statics, step: Any, arrays: tuple[jax.Array, ...], like: tuple[jax.Array, ...]) -> Any:
    """A step on each shard of the mesh, or left to the compiler; what it gives lies as `like` does."""
    if statics.gather:
        heads = _spec(CONTEXT, "tensor")
        step = jax.shard_map(
            step,
            in_specs=tuple(heads if x.ndim == 4 else _spec(CONTEXT) for x in arrays),
            out_specs=heads,
            check_vma=False,
        )
    return jax.sharding.auto_axes(step, out_sharding=tuple(jax.typeof(x).sharding for x in like))(*arrays)


def _zeros(like: jax.Array) -> jax.Array:
    """Zeros of its shape and type; in a `shard_map` types say over which axes shards differ, and loops keep them."""
    return jnp.where(False, like, 0)


def _spec(*axes: str) -> PartitionSpec:
    """How `[batch, seq, heads, ...]` lies: batches over their axes, then these; axes that the mesh lacks left out."""
    mesh = jax.sharding.get_abstract_mesh()
    return PartitionSpec(*(tuple(a for a in names if a in mesh.shape) for names in (BATCH, *((a,) for a in axes))))


def _unsplit(x: jax.Array) -> jax.Array:
    """Keys or their places, whole on every shard of `context`, and split over batch and heads as before."""
    if CONTEXT not in jax.sharding.get_abstract_mesh().shape:
        return x
    return lax.with_sharding_constraint(x, _spec("", "tensor") if x.ndim == 4 else _spec(""))


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
    chunks = 2 * mesh.shape.get(CONTEXT, 1)
    if balanced and query.shape[1] % chunks:
        raise ValueError(f"the balanced sequence has {query.shape[1]} tokens; expected a multiple of {chunks}")
    return query.shape[3] ** -0.5 if scale is None else scale
