"""Grouped matrix products without a loop over experts: by `jax.lax.ragged_dot`, and by the Pallas kernels "megablox".

Off a TPU the kernels are interpreted, slowly, and step by step as they would run; what a kernel leaves unwritten is NaN
there, as it may be on a TPU.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental.pallas.ops.tpu.megablox.gmm import gmm, tgmm
from jax.sharding import PartitionSpec

ROWS, COLUMNS = ("data", "fsdp"), ("tensor",)
"""The mesh axes over which rows, and the columns of the kernels, are split."""

Tiles = tuple[int, ...]


def ragged_dot(
    rows: jax.Array, kernels: jax.Array, sizes: jax.Array, *, tiling: tuple[int, ...] = (128, 128, 128)
) -> jax.Array:
    """The rows of each expert times its kernel, by `jax.lax.ragged_dot`; the compiler places it on the mesh.

    Args:
        rows: `[n, D]`, floating point, sorted by expert.
        kernels: `[E, D, F]`, floating point, finite.
        sizes: int32 `[E]`, the rows of each expert; not negative, at most `n` together. Rows beyond give 0.
        tiling: not used; one signature serves all forms.

    Returns:
        `[n, F]` in the dtype of `rows`, split as the rows and as the kernels' columns; summed in at least float32.

    Raises:
        ValueError: the shapes do not fit, the sizes are not int32, or the tiling is not three or nine numbers above 0.
    """
    _check(rows, kernels, sizes, tiling)

    def product(rows: jax.Array, kernels: jax.Array, sizes: jax.Array) -> jax.Array:
        wide = jnp.promote_types(rows.dtype, jnp.float32)
        # What `ragged_dot` makes of rows beyond the groups is its own affair, forward and back.
        out = lax.ragged_dot(_counted(rows, sizes), kernels, sizes, preferred_element_type=wide)
        return _counted(out, sizes).astype(rows.dtype)

    if not jax.sharding.get_abstract_mesh().explicit_axes:
        return product(rows, kernels, sizes)  # inside a shard_map too, where nothing is left to a compiler
    row, column = jax.typeof(rows).sharding.spec[0], jax.typeof(kernels).sharding.spec[2]
    placed = jax.sharding.auto_axes(product, out_sharding=PartitionSpec(row, column))
    out: jax.Array = placed(rows, kernels, sizes)
    return out


def short_tiling(
    rows: jax.Array, kernels: jax.Array, sizes: jax.Array, *, tiling: tuple[int, ...] = (128, 128, 128)
) -> jax.Array:
    """`ragged_dot` given the first three numbers of its tiling, those of the product: the gradients' are cut off.

    Equivalent to `ragged_dot(..., tiling=tiling[:3])`, and to `ragged_dot` itself, which uses none of them.

    Args:
        rows: `[n, D]`, floating point, sorted by expert.
        kernels: `[E, D, F]`, floating point, finite.
        sizes: int32 `[E]`, the rows of each expert; not negative, at most `n` together. Rows beyond give 0.
        tiling: three or nine numbers; not used beyond the third.

    Returns:
        `[n, F]` in the dtype of `rows`, split as the rows and as the kernels' columns; summed in at least float32.

    Raises:
        ValueError: the shapes do not fit, the sizes are not int32, or the tiling is not three or nine numbers above 0.

    Source: MaxText pull request 3922, item 9a.
    """
    _check(rows, kernels, sizes, tiling)
    return ragged_dot(rows, kernels, sizes, tiling=tiling[:3])


def megablox(
    rows: jax.Array, kernels: jax.Array, sizes: jax.Array, *, tiling: tuple[int, ...] = (128, 128, 128)
) -> jax.Array:
    """The rows of each expert times its kernel, tile by tile in Pallas kernels, on each shard of the mesh.

    A shard has a range of the rows, which is a range of the experts: its own sizes are what the ranges of the experts
    have in common with it. Gradients that are sums over shards are added up in at least float32 and rounded once.
    There is no forward-mode derivative.

    Args:
        rows: `[n, D]`, bfloat16 or float32, sorted by expert; other dtypes, float64, are multiplied by `ragged_dot`.
        kernels: `[E, D, F]`, of one dtype with the rows, finite.
        sizes: int32 `[E]`, the rows of each expert; not negative, at most `n` together. Rows beyond give 0.
        tiling: (rows, summed, columns) of a tile; nine numbers give those of the product, of the gradient of the rows
            (whose sum is over F) and of that of the kernels (whose tiles are rows, D, F).

    Returns:
        `[n, F]` in the dtype of `rows`, split as the rows and as the kernels' columns; summed in at least float32.

    Raises:
        ValueError: the shapes do not fit, the sizes are not int32, or the tiling is not three or nine numbers above 0.

    Source: Gale et al., MegaBlocks, arXiv 2211.15841, section 5.1.
    """
    _check(rows, kernels, sizes, tiling)
    return _tiled(tiling if len(tiling) == 9 else tiling * 3, rows, kernels, sizes)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _tiled(tiles: Tiles, rows: jax.Array, kernels: jax.Array, sizes: jax.Array) -> jax.Array:
    def product(rows: jax.Array, kernels: jax.Array, sizes: jax.Array) -> jax.Array:
        sizes = _own_sizes(sizes, rows.shape[0])
        return _counted(_gmm(_counted(rows, sizes), kernels, sizes, tiles[:3], rows.dtype), sizes)

    row, kernel, out = _specs()
    return _on_shards(product, (row, kernel, PartitionSpec()), out, _sharding(rows, kernels)[2])(rows, kernels, sizes)


def _tiled_forward(tiles: Tiles, *arrays: jax.Array) -> tuple[jax.Array, tuple[jax.Array, ...]]:
    return _tiled(tiles, *arrays), arrays


def _tiled_backward(tiles: Tiles, saved: tuple[jax.Array, ...], cotangent: jax.Array) -> tuple[Any, ...]:
    def gradients(
        rows: jax.Array, kernels: jax.Array, sizes: jax.Array, cotangent: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        wide = jnp.promote_types(rows.dtype, jnp.float32)
        sizes = _own_sizes(sizes, rows.shape[0])
        rows, cotangent = _counted(rows, sizes), _counted(cotangent, sizes)
        to_rows = _gmm(cotangent, kernels, sizes, tiles[3:6], wide, transposed=True)
        to_kernels = _tgmm(rows, cotangent, sizes, tiles[6:], wide)
        # Each shard has some of the columns, and some of the rows.
        to_rows = lax.psum(_counted(to_rows, sizes), _known(COLUMNS))
        return to_rows.astype(rows.dtype), lax.psum(to_kernels, _known(ROWS)).astype(kernels.dtype)

    row, kernel, out = _specs()
    step = _on_shards(gradients, (row, kernel, PartitionSpec(), out), (row, kernel), _sharding(*saved[:2])[:2])
    return *step(*saved, cotangent), None


_tiled.defvjp(_tiled_forward, _tiled_backward)


# The kernels, on one device.


def _gmm(
    rows: jax.Array, kernels: jax.Array, sizes: jax.Array, tiles: Tiles, dtype: Any, transposed: bool = False
) -> jax.Array:
    """`[n, D]` times `[E, D, F]` by groups, or `[n, F]` times their transposes; rows beyond are unwritten."""
    if rows.dtype not in (jnp.bfloat16, jnp.float32):
        kernels = kernels.swapaxes(1, 2) if transposed else kernels
        return lax.ragged_dot(rows, kernels, sizes, preferred_element_type=dtype)
    summed, columns = kernels.shape[:0:-1] if transposed else kernels.shape[1:]
    tiles = _fitting(tiles, rows.shape[0], summed, columns)

    def kernel(interpret: bool, rows: jax.Array, kernels: jax.Array, sizes: jax.Array) -> jax.Array:
        out: jax.Array = gmm(rows, kernels, sizes, dtype, tiles, transpose_rhs=transposed, interpret=interpret)
        return out

    return _on_platform(kernel, _padded(rows, tiles[0]), kernels, sizes)[: rows.shape[0]]


def _tgmm(rows: jax.Array, cotangent: jax.Array, sizes: jax.Array, tiles: Tiles, dtype: Any) -> jax.Array:
    """`rows[group].T @ cotangent[group]` for each group: `[E, D, F]`, 0 for an empty group."""
    if rows.dtype not in (jnp.bfloat16, jnp.float32):
        ends = jnp.cumsum(sizes)
        place = jnp.arange(rows.shape[0])
        mine = (place >= (ends - sizes)[:, None]) & (place < ends[:, None])
        return jnp.einsum("en,nd,nf->edf", mine.astype(dtype), rows, cotangent)
    tiles = _fitting(tiles, rows.shape[0], rows.shape[1], cotangent.shape[1])

    def kernel(interpret: bool, rows: jax.Array, cotangent: jax.Array, sizes: jax.Array) -> jax.Array:
        out: jax.Array = tgmm(rows.swapaxes(0, 1), cotangent, sizes, dtype, tiles, interpret=interpret)
        return out

    return _on_platform(kernel, _padded(rows, tiles[0]), _padded(cotangent, tiles[0]), sizes)


def _on_platform(kernel: Callable[..., jax.Array], *arrays: jax.Array) -> jax.Array:
    def emulated(*arrays: jax.Array) -> jax.Array:
        with jax.named_scope("emulated_megablox"):
            return kernel(True, *arrays)

    out: jax.Array = lax.platform_dependent(*arrays, tpu=functools.partial(kernel, False), default=emulated)
    return out


def _fitting(tiles: Tiles, rows: int, summed: int, columns: int) -> tuple[int, int, int]:
    """Tiles no larger than the arrays; rows are padded, to 16 at least (a register's worth of bfloat16)."""
    return min(tiles[0], -(-rows // 16) * 16), min(tiles[1], summed), min(tiles[2], columns)


def _padded(x: jax.Array, tile: int) -> jax.Array:
    """With rows of zeros up to a multiple of the tile."""
    return jnp.pad(x, ((0, -x.shape[0] % tile), (0, 0)))


# Groups and the mesh.


def _own_sizes(sizes: jax.Array, rows: int) -> jax.Array:
    """How many rows of each group lie on this shard, which has `rows` of them."""
    axes = _known(ROWS)
    first = lax.axis_index(axes) * rows if axes else 0
    ends = jnp.clip(jnp.cumsum(sizes) - first, 0, rows)
    return jnp.diff(ends, prepend=0).astype(sizes.dtype)


def _counted(x: jax.Array, sizes: jax.Array) -> jax.Array:
    """The rows of the groups; those beyond are 0."""
    return jnp.where(jnp.arange(x.shape[0])[:, None] < jnp.sum(sizes), x, 0)


def _known(axes: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(axis for axis in axes if axis in jax.sharding.get_abstract_mesh().shape)


def _specs() -> tuple[PartitionSpec, PartitionSpec, PartitionSpec]:
    """How rows, kernels and products lie on the mesh."""
    row, column = _known(ROWS), _known(COLUMNS)
    return PartitionSpec(row), PartitionSpec(None, None, column), PartitionSpec(row, column)


def _sharding(rows: jax.Array, kernels: jax.Array) -> tuple[Any, Any, PartitionSpec]:
    """The types of rows, kernels and products, where shardings are part of types."""
    row, kernel = jax.typeof(rows).sharding, jax.typeof(kernels).sharding
    return row, kernel, PartitionSpec(row.spec[0], kernel.spec[2])


def _on_shards(step: Any, in_specs: Any, out_specs: Any, out_sharding: Any) -> Any:
    if jax.sharding.get_abstract_mesh().empty:
        return step
    # Kernels do not say over which axes their results differ, so that the types cannot be checked.
    mapped = jax.shard_map(step, in_specs=in_specs, out_specs=out_specs, check_vma=False)
    return jax.sharding.auto_axes(mapped, out_sharding=out_sharding)


def _check(rows: jax.Array, kernels: jax.Array, sizes: jax.Array, tiling: tuple[int, ...]) -> None:
    if rows.ndim != 2 or kernels.ndim != 3 or rows.shape[1] != kernels.shape[1] or sizes.shape != kernels.shape[:1]:
        raise ValueError(
            f"rows, kernels and sizes have shapes {rows.shape}, {kernels.shape} and {sizes.shape}; expected [n, D], "
            "[E, D, F] and [E]"
        )
    if sizes.dtype != jnp.int32:
        raise ValueError(f"sizes have dtype {sizes.dtype}; expected int32")
    if len(tiling) not in (3, 9) or min(tiling) < 1:
        raise ValueError(f"tiling is {tiling}; expected 3 numbers (rows, D, F) or 9, each at least 1")
