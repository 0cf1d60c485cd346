"""Norms, softmax and products of matrices."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tests.interpret.library_kernels.kernel import Array, Function, LibraryKernel, source

SIZES = np.array([10, 0, 14, 8], np.int32)
GROUPS = np.repeat(np.arange(4), SIZES)


def rms(x: Array, w: Array, b: Array) -> Array:
    """RMS norm with a bias."""
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * w + b


def centred(x: Array, w: Array, b: Array) -> Array:
    """Layer norm."""
    return rms(x - x.mean(-1, keepdims=True), w, b)


def grouped(x: Array, w: Array) -> Array:
    """Rows times the matrix of their group."""
    return jnp.einsum("mk,mkn->mn", x, w[GROUPS])


def by_group(x: Array, y: Array) -> Array:
    """For each group the product of its columns and rows."""
    return jnp.einsum("km,mn,mg->gkn", x, y, (GROUPS[:, None] == np.arange(4)).astype(np.float32))


def gmm(module: Any) -> Function:
    ops = source(
        "tpu.megablox.ops", "from jax.experimental.pallas.ops.tpu.megablox import gmm as backend", "", backend=module
    )
    return lambda x, w: ops.gmm(x, w, jnp.asarray(SIZES), tiling=(8, 8, 8))


def matmul(module: Any) -> Function:
    return functools.partial(module.matmul, block_shape=(8, 8), block_k=8)


NORM = {
    "twice the epsilon": ("jnp.sqrt(var + eps)", "jnp.sqrt(var + 2 * eps)"),
    "a variance of one element less": ("var /= n_col", "var /= n_col - 1"),
    "an element less": ("mask = col_idx < n_col", "mask = col_idx < n_col - 1"),
}
GROUPED = {
    "a group that starts a row later": ("iota >= group_start,", "iota > group_start,"),
    "a group that ends a row later": ("iota < group_end)", "iota <= group_end)"),
}
MATMUL = {
    "the last chunk alone": ("acc_ref[...] = acc_ref[...] + jnp.dot(", "acc_ref[...] = jnp.dot("),
    "a sum that starts a chunk late": ("pl.program_id(2) == 0", "pl.program_id(2) == 1"),
    "the first columns again": ("lambda _, j, k: (k, j)", "lambda _, j, k: (k, 0 * j)"),
}
FEATURES = ((2, 2, 20), (20,), (20,))
BOTH = ("float32", "bfloat16")
OTHERS = (
    *(
        LibraryKernel(
            "rms_norm",
            "gpu.rms_norm",
            rms,
            lambda module: lambda x, w, b: module.rms_norm(x, w, b),
            FEATURES,
            NORM | {"a gradient without its mean": ("(wdout - (a_hat * c1))", "(wdout)")},
            dtype=dtype,
            against="the formula",
        )
        for dtype in BOTH
    ),
    LibraryKernel(
        "layer_norm",
        "gpu.layer_norm",
        centred,
        lambda module: lambda x, w, b: module.layer_norm(x, w, b),
        FEATURES,
        NORM | {"a gradient without its mean": ("a_hat * mean1 + mean2", "a_hat * mean1")},
        against="the formula",
    ),
    LibraryKernel(
        "softmax",
        "gpu.softmax",
        lambda x: jax.nn.softmax(x),
        lambda module: module.softmax,
        ((3, 5, 20),),
        {
            "elements that are left out count": ('other=-float("inf")', "other=0.0"),
            "an epsilon": ("(numerator / denominator)", "(numerator / (denominator + 1e-6))"),
            "a sum of one term less": ("jnp.sum(numerator, axis=0)", "jnp.sum(numerator[1:], axis=0)"),
        },
        gradients=False,
        quick=True,
        against="jax.nn.softmax",
    ),
    *(
        LibraryKernel(
            "matmul",
            "tpu.matmul",
            jnp.matmul,
            matmul,
            ((16, 32), (32, 16)),
            MATMUL,
            gradients=False,
            dtype=dtype,
            quick=True,
            against="jnp.matmul",
        )
        for dtype in BOTH
    ),
    LibraryKernel(
        "gmm",
        "tpu.megablox.gmm",
        grouped,
        gmm,
        ((32, 16), (4, 16, 16)),
        {
            "a group that starts a row later": GROUPED["a group that starts a row later"],
            "sums that are not cleared": ("@pl.when(k_i == 0)", "@pl.when(grid_id + k_i == 0)"),
            "the last chunk alone": ("acc_scratch[...] += lax.dot_general(", "acc_scratch[...] = lax.dot_general("),
            "the matrix of another group": (
                "group_ids[grid_id] - group_offset[0], k_i, n_i",
                "(group_ids[grid_id] + 1) % 4, k_i, n_i",
            ),
        },
        against="a product of each row with its group's matrix",
    ),
    LibraryKernel(
        "tgmm",
        "tpu.megablox.gmm",
        by_group,
        lambda module: lambda x, y: module.tgmm(x, y, jnp.asarray(SIZES), tiling=(8, 8, 8)),
        ((16, 32), (32, 16)),
        GROUPED
        | {
            "the last rows alone": ("acc_scratch[...] += lax.dot(", "acc_scratch[...] = lax.dot("),
            "an empty group that is not written": ("visit_empty_groups=True", "visit_empty_groups=False"),
        },
        gradients=False,
        against="a sum over the rows of each group",
    ),
)
