"""The kernels of the table, and those of which no verdict is given."""

from __future__ import annotations

import functools
from typing import Any

import jax.numpy as jnp
import numpy as np

from tests.interpret.library_kernels.attention import ATTENTION, HEADS, QKV, ROWS, attention, flash, splash
from tests.interpret.library_kernels.kernel import Array, Function, LibraryKernel, mesh_of
from tests.interpret.library_kernels.others import OTHERS

KERNELS = (*OTHERS, *ATTENTION)


def capped(q: Array, k: Array, v: Array) -> Array:
    """Attention whose scores lie below 3."""
    scores = 3 * jnp.tanh(jnp.einsum("hqd,hkd->hqk", q, k) / 3)
    parts = jnp.exp(scores - scores.max(-1, keepdims=True))
    return jnp.einsum("hqk,hkd->hqd", parts / parts.sum(-1, keepdims=True), v)


def ragged_dot(module: Any) -> Function:
    sizes = {"block_m": 64, "block_n": 64, "block_k": 64, "max_concurrent_steps": 2, "grid_block_n": 1}
    return lambda x, w: module.ragged_dot(x, w, group_sizes=jnp.full(2, 64, jnp.int32), **sizes)


LATER = (ROWS >= 128).astype(np.int32)
UNDECIDED = (
    LibraryKernel(
        "flash attention, segments of which a block of keys has none",
        "tpu.flash_attention",
        functools.partial(attention, mask=LATER[:, None] == LATER),
        functools.partial(flash, segments=LATER),
        QKV,
        {},
    ),
    LibraryKernel(
        "splash attention with a soft cap",
        "tpu.splash_attention.splash_attention_kernel",
        capped,
        functools.partial(splash, cap=3.0),
        HEADS,
        {},
        gradients=False,
    ),
    LibraryKernel(
        "ragged_dot of Hopper GPUs",
        "gpu.ragged_dot_mgpu",
        lambda x, w: jnp.einsum("gmk,gkn->gmn", x.reshape(2, 64, 128), w).reshape(128, 128),
        ragged_dot,
        ((128, 128), (2, 128, 128)),
        {},
        gradients=False,
    ),
    LibraryKernel(
        "all_gather",
        "tpu.all_gather",
        lambda x: x,
        lambda module: functools.partial(module.all_gather, mesh=mesh_of("x"), axis_name="x"),
        ((16, 128),),
        {},
        gradients=False,
        axis="x",
    ),
)
