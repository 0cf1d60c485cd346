"""The kernels of the table, and those of which no verdict is given."""

from __future__ import annotations

import functools
from typing import Any

import jax.numpy as jnp

from tests.interpret.library_kernels.attention import ATTENTION
from tests.interpret.library_kernels.kernel import Function, LibraryKernel, mesh_of
from tests.interpret.library_kernels.others import OTHERS

KERNELS = (*OTHERS, *ATTENTION)


def ragged_dot(module: Any) -> Function:
    sizes = {"block_m": 64, "block_n": 64, "block_k": 64, "max_concurrent_steps": 2, "grid_block_n": 1}
    return lambda x, w: module.ragged_dot(x, w, group_sizes=jnp.full(2, 64, jnp.int32), **sizes)


UNDECIDED = (
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
