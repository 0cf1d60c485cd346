"""Attention: in blocks, with masks, over pages, and of one token."""

from __future__ import annotations

import functools
import inspect
from typing import Any

import jax.numpy as jnp
import numpy as np

from tests.interpret.library_kernels.kernel import Array, Function, LibraryKernel

ROWS = np.arange(256)
CAUSAL = ROWS[:, None] >= ROWS
WINDOW = CAUSAL & (ROWS[:, None] - ROWS <= 60)
SEGMENTS = (ROWS * 3 % 7 % 3).astype(np.int32)
SAME = SEGMENTS[:, None] == SEGMENTS
LATER = (ROWS >= 128).astype(np.int32)
"""Segments that lie within each other, and those of which each block of keys has one alone."""


def attention(
    q: Array, k: Array, v: Array, bias: Array = 0.0, mask: Array = None, scale: float = 1.0, added: float = 0.0
) -> Array:
    """Softmax attention; `added` goes to the sums that it divides by."""
    scores = (jnp.einsum("...qd,...kd->...qk", q, k) + bias) * scale
    scores = scores if mask is None else jnp.where(mask, scores, -jnp.inf)
    parts = jnp.exp(scores - scores.max(-1, keepdims=True))
    return jnp.einsum("...qk,...kd->...qd", parts / (parts.sum(-1, keepdims=True) + added), v)


# -- flash attention for TPUs


def flash(module: Any, segments: Array = None, **options: Any) -> Function:
    names = inspect.signature(module.BlockSizes).parameters
    sizes = module.BlockSizes(**dict.fromkeys(names, 128) | {"block_b": 1})
    ids = None if segments is None else module.SegmentIds(segments[None], segments[None])
    return functools.partial(module.flash_attention, segment_ids=ids, block_sizes=sizes, **options)


FLASH = {
    "sums without their correction": ("l_corr = alpha * l_prev", "l_corr = l_prev"),
    "values that are not scaled down": ("*= l_broadcast(l_corr * l_next_inv_safe)", "*= l_broadcast(l_corr)"),
    "a gradient without its mean": ("ds = (dp - jnp.tile(di, (1, block_k // MIN_BLOCK_SIZE))) * p", "ds = dp * p"),
    "the first keys again": ("(batch_index, head_index, next_kv_index, 0)", "(batch_index, head_index, 0, 0)"),
}
QKV = ((1, 1, 256, 4),) * 3


# -- splash attention


def splash(
    module: Any, mask: str = "FullMask", heads: int = 2, fused: bool = False, shared: bool = False, **more: Any
) -> Function:
    from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_mask as masks

    blocks = dict.fromkeys(("block_q", "block_kv", "block_q_dkv", "block_kv_dkv"), 128)
    blocks |= {"use_fused_bwd_kernel": True} if fused else {"block_q_dq": 128, "block_kv_dq": 128}
    window = {"LocalMask": ((60, 0), 0)}.get(mask, ())
    each = getattr(masks, mask)((256, 256), *window)
    make = module.make_splash_mqa if shared else module.make_splash_mha
    sizes = module.BlockSizes(**blocks)
    segments, cap = more.get("segments"), more.get("cap")
    kernel = make(
        masks.MultiHeadMask([each] * heads), block_sizes=sizes, head_shards=1, q_seq_shards=1, attn_logits_soft_cap=cap
    )
    ids = None if segments is None else module.SegmentIds(segments, segments)
    return lambda q, k, v: kernel(q, k, v, ids)


def grouped(q: Array, k: Array, v: Array, mask: Array) -> Array:
    """Two heads of queries for each of keys."""
    each = q.reshape(k.shape[0], -1, *q.shape[1:])
    return attention(each, k[:, None], v[:, None], mask=mask).reshape(q.shape)


SPLASH = {
    "sums without their correction": ("l_next = l_curr + alpha * l_prev", "l_next = l_curr + l_prev"),
    "values without their correction": ("alpha_o * o_scratch_ref[:] + o_curr", "o_scratch_ref[:] + o_curr"),
    "a gradient without its mean": ("ds = (dp - di) * p", "ds = dp * p"),
}
MASKED = SPLASH | {
    "a mask that is off by one": ("k_offset=global_kv_index * bkv", "k_offset=1 + global_kv_index * bkv")
}


def capped(q: Array, k: Array, v: Array) -> Array:
    """Attention whose scores lie below 3."""
    scores = 3 * jnp.tanh(jnp.einsum("hqd,hkd->hqk", q, k) / 3)
    parts = jnp.exp(scores - scores.max(-1, keepdims=True))
    return jnp.einsum("hqk,hkd->hqd", parts / parts.sum(-1, keepdims=True), v)


CAPPED = {name: SPLASH[name] for name in ("sums without their correction", "values without their correction")} | {
    "scores that are not capped": ("jnp.tanh(qk / attn_logits_soft_cap)", "qk / attn_logits_soft_cap"),
    "a cap of twice the size": ("return logits * attn_logits_soft_cap", "return 2 * logits * attn_logits_soft_cap"),
}


# -- attention of GPUs


def mha(module: Any, segments: Array = None, **options: Any) -> Function:
    sizes = module.BlockSizes(**dict.fromkeys(inspect.signature(module.BlockSizes).parameters, 16))
    ids = None if segments is None else segments[None]
    return lambda q, k, v: module.mha(q, k, v, ids, block_sizes=sizes, **options)


def by_heads(function: Function) -> Function:
    """Of arrays whose heads come after their rows."""

    def call(*arrays: Array) -> Array:
        return function(*(x.swapaxes(1, 2) for x in arrays)).swapaxes(1, 2)

    return call


MHA = {
    "sums without their correction": ("l_prev_corr = correction * l_prev", "l_prev_corr = l_prev"),
    "keys that start anew": ("pl.dslice(start_k * block_k, block_k)", "pl.dslice(0 * start_k, block_k)"),
    "a gradient with its mean added": ("dtype=jnp.float32) - di[:, None]", "dtype=jnp.float32) + di[:, None]"),
    "a gradient of a block less": (
        "pl.cdiv(q_seq_len, block_q_dkv), inner",
        "pl.cdiv(q_seq_len, block_q_dkv) - 1, inner",
    ),
}
LENGTHS = np.array([40, 23], np.int32)
EPSILON = float(np.finfo(np.float32).eps)
"""Decoding kernels add it to the sum that they divide by, which is another formula than softmax."""


def decoded(q: Array, k: Array, v: Array) -> Array:
    """One token of each sequence against keys [batch, length, heads, dim]."""
    each = q.reshape(*q.shape[:1], k.shape[2], -1, q.shape[-1])
    mask = np.arange(k.shape[1]) < LENGTHS[:, None, None, None]
    k, v = (x.swapaxes(1, 2) for x in (k, v))
    return attention(each, k, v, mask=mask, scale=0.25, added=EPSILON).reshape(q.shape)


DECODE = {
    "a key too many": ("(indices < kv_seq_len)", "(indices <= kv_seq_len)"),
    "keys that start anew": ("pl.ds(start_k * block_k, block_k)", "pl.ds(0 * start_k, block_k)"),
    "parts without their correction": ("o * correction[:, :, None]", "o * correction[:1, :, None]"),
}

# -- pages

PAGES = np.array([[3, 1, 0, 5], [2, 4, 6, 7]], np.int32)
FILLED = np.array([25, 17], np.int32)


def paged(q: Array, keys: Array, values: Array, added: float = 0.0) -> Array:
    """One token of each sequence against pages [heads, page, 8, dim], by tables of pages."""
    k, v = (pages[:, PAGES].reshape(len(pages), 2, 32, -1).swapaxes(0, 1) for pages in (keys, values))
    mask = np.arange(32) < FILLED[:, None, None, None]
    each = q.reshape(2, len(keys), -1, q.shape[-1])
    return attention(each, k, v, mask=mask, added=added).reshape(q.shape)


PAGED = {
    "a key too many": ("jnp.arange(block_k) + curr_start", "jnp.arange(block_k) - 1 + curr_start"),
    "the first page again": ("start_k * pages_per_compute_block, pages", "0 * start_k, pages"),
    "sums without their correction": ("l_prev_corr = correction * l_prev", "l_prev_corr = l_prev"),
}
COPIED = {
    "sums without their correction": ("alpha * l_prev + beta * l_curr", "l_prev + beta * l_curr"),
    "a key too many": (
        "broadcasted_iota(jnp.int32, qk.shape, 1) < length",
        "broadcasted_iota(jnp.int32, qk.shape, 1) <= length",
    ),
    "the first page again": ("self._page_indices_start_offset + i]", "self._page_indices_start_offset + 0 * i]"),
    "a copy that is not waited for": (".wait()\n", "\n"),
    "one buffer for both": ("jnp.where(buffer_index == 0, 1, 0)", "buffer_index"),
}


def paged_call(module: Any, **options: Any) -> Function:
    return lambda q, k, v: module.paged_attention(q, k, v, FILLED, PAGES, pages_per_compute_block=2, **options)


KV_LENGTHS, STARTS = np.array([20, 9], np.int32), np.array([0, 5, 8], np.int32)
RAGGED_PAGES = np.array([[3, 1, 0], [2, 4, 5]], np.int32)


def ragged(q: Array, pages: Array) -> Array:
    """Queries [token, head, dim] of two sequences, each against the last of its keys and all before."""
    rows = []
    for number, length in enumerate(KV_LENGTHS):
        part = q[STARTS[number] : STARTS[number + 1]].swapaxes(0, 1)
        k, v = (pages[RAGGED_PAGES[number], :, n::2].reshape(-1, 2, q.shape[-1])[:length] for n in range(2))
        mask = np.arange(length) <= np.arange(part.shape[1])[:, None] + length - part.shape[1]
        rows.append(grouped(part, k.swapaxes(0, 1), v.swapaxes(0, 1), mask).swapaxes(0, 1))
    return jnp.concatenate(rows)


def ragged_call(module: Any) -> Function:
    integers = [jnp.asarray(each) for each in (KV_LENGTHS, RAGGED_PAGES, STARTS, np.array([2], np.int32))]
    sizes = {"num_kv_pages_per_block": 2, "num_queries_per_block": 4}
    return lambda q, pages: module.ragged_paged_attention(q, pages, *integers, **sizes)


RAGGED = {
    "sums without their correction": ("l_alpha = alpha * l_prev", "l_alpha = l_prev"),
    "a mask that is off by one": ("causal_mask = row_ids < col_ids", "causal_mask = row_ids <= col_ids"),
    "one buffer for both": ("lax.select(cur_buf_idx == 0, 1, 0)", "cur_buf_idx"),
    "a sequence that is forgotten": (
        "seq_buf_idx_ref[0] = lax.select(seq_idx < num_seqs, seq_idx, 0)",
        "seq_buf_idx_ref[0] = 1",
    ),
}
F = "tpu.flash_attention"
S = "tpu.splash_attention.splash_attention_kernel"
P = functools.partial
HEADS = ((2, 256, 4),) * 3
ATTENTION = (
    LibraryKernel("flash attention", F, P(attention, scale=0.5), P(flash, sm_scale=0.5), QKV, FLASH),
    LibraryKernel("flash attention", F, attention, flash, QKV, FLASH, dtype="bfloat16"),
    LibraryKernel(
        "flash attention, causal",
        F,
        P(attention, mask=CAUSAL),
        P(flash, causal=True),
        QKV,
        FLASH | {"a mask that is off by one": ("causal_mask = col_ids <= row_ids", "causal_mask = col_ids < row_ids")},
    ),
    LibraryKernel(
        "flash attention with segments",
        F,
        P(attention, mask=SAME),
        P(flash, segments=SEGMENTS),
        QKV,
        FLASH
        | {"segments in order": ("jnp.equal(q_segment_ids, kv_segment_ids)", "(q_segment_ids >= kv_segment_ids)")},
    ),
    LibraryKernel(
        "flash attention, segments of which a block of keys has none",
        F,
        P(attention, mask=LATER[:, None] == LATER),
        P(flash, segments=LATER),
        QKV,
        FLASH
        | {
            "a mask that is off by a block": ("next_kv_index)\n\n    q_segment", "1 - next_kv_index)\n\n    q_segment"),
            "a mask of the other sign": ("jnp.where(mask, 0.0, mask_value)", "jnp.where(mask, 0.0, -mask_value)"),
            "a maximum of the wrong block": ("jnp.exp(m_prev - m_next)", "jnp.exp(m_prev - m_curr)"),
            "a mask that is not added": ("jnp.where(mask, 0.0, mask_value)", "jnp.where(mask, 0.0, 0.0)"),
        },
    ),
    LibraryKernel(
        "flash attention with a bias",
        F,
        attention,
        flash,
        (*QKV, (1, 1, 256, 256)),
        FLASH | {"a gradient of a bias that is halved": ("capped_logits += ab", "capped_logits += ab / 2")},
    ),
    LibraryKernel("splash attention", S, attention, splash, HEADS, SPLASH),
    LibraryKernel(
        "splash attention, causal", S, P(attention, mask=CAUSAL), P(splash, mask="CausalMask"), HEADS, MASKED
    ),
    LibraryKernel(
        "splash attention, sliding window", S, P(attention, mask=WINDOW), P(splash, mask="LocalMask"), HEADS, MASKED
    ),
    LibraryKernel(
        "splash attention with segments",
        S,
        P(attention, mask=SAME),
        P(splash, segments=SEGMENTS),
        HEADS,
        SPLASH | {"segments in order": ("masks.append(q_ids == kv_ids)", "masks.append(q_ids >= kv_ids)")},
    ),
    LibraryKernel("splash attention with a soft cap", S, capped, P(splash, cap=3.0), HEADS, CAPPED, gradients=False),
    LibraryKernel(
        "splash attention, heads in groups",
        S,
        P(grouped, mask=CAUSAL),
        P(splash, mask="CausalMask", heads=4),
        ((4, 256, 4), *HEADS[1:]),
        MASKED | {"heads of another group": ("_div(h, q_heads_per_kv_head)", "(h % 2)")},
    ),
    LibraryKernel(
        "splash attention, one head of keys, fused backward",
        S,
        P(attention, mask=CAUSAL),
        P(splash, mask="CausalMask", fused=True, shared=True),
        ((2, 256, 4), (256, 4), (256, 4)),
        MASKED,
    ),
    LibraryKernel(
        "mha", "gpu.attention", by_heads(P(attention, scale=0.5)), P(mha, sm_scale=0.5), ((1, 32, 2, 8),) * 3, MHA
    ),
    LibraryKernel(
        "mha, causal, with segments",
        "gpu.attention",
        by_heads(P(attention, mask=(CAUSAL & SAME)[:32, :32])),
        P(mha, causal=True, segments=SEGMENTS[:32]),
        ((1, 32, 2, 8),) * 3,
        MHA | {"a mask that is off by one": (">= span_k[None, :]", "> span_k[None, :]")},
    ),
    LibraryKernel(
        "mqa, decoding",
        "gpu.decode_attention",
        lambda q, k, v: decoded(q, k[:, :, None], v[:, :, None]),
        lambda module: lambda q, k, v: module.mqa(q, k, v, kv_seq_len=LENGTHS, block_k=16, k_splits=2, block_h=2),
        ((2, 4, 16), (2, 64, 16), (2, 64, 16)),
        DECODE,
        gradients=False,
        against="attention with an epsilon in its sums",
    ),
    LibraryKernel(
        "gqa, decoding",
        "gpu.decode_attention",
        decoded,
        lambda module: lambda q, k, v: module.gqa(q, k, v, kv_seq_len=LENGTHS, block_k=16, k_splits=2, block_h=2),
        ((2, 4, 16), (2, 64, 2, 16), (2, 64, 2, 16)),
        DECODE,
        gradients=False,
        against="attention with an epsilon in its sums",
    ),
    LibraryKernel(
        "paged attention",
        "gpu.paged_attention",
        P(paged, added=EPSILON),
        lambda module: (
            lambda q, k, v: module.paged_attention(q, k, v, PAGES, FILLED, pages_per_compute_block=1, k_splits=2)
        ),
        ((2, 8, 8), (2, 8, 8, 8), (2, 8, 8, 8)),
        PAGED,
        gradients=False,
        against="attention over gathered pages, an epsilon in its sums",
    ),
    *(
        LibraryKernel(
            f"paged attention, {name}",
            "tpu.paged_attention.paged_attention_kernel",
            paged,
            P(paged_call, inline_seq_dim=inline),
            ((2, 4, 8), (2, 8, 8, 8), (2, 8, 8, 8)),
            COPIED,
            gradients=False,
            against="attention over gathered pages",
            dtype="bfloat16",
        )
        for name, inline in (("a loop over pages", True), ("a grid over pages", False))
    ),
    LibraryKernel(
        "ragged paged attention",
        "tpu.ragged_paged_attention.kernel",
        ragged,
        ragged_call,
        ((8, 4, 128), (6, 8, 4, 128)),
        RAGGED,
        gradients=False,
        against="causal attention of each sequence",
    ),
)
