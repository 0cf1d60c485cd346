"""A matrix product per group of rows: one expert after another, the rows of the others masked out.

Source: the matrix products of Gale et al., "MegaBlocks: Efficient Sparse Training with Mixture-of-Experts", 2022 (arXiv
2211.15841), section 3: tokens sorted by expert, as many to each as chose it, none dropped and none padded.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp


def loop(
    rows: jax.Array, kernels: jax.Array, sizes: jax.Array, *, tiling: tuple[int, ...] = (128, 128, 128)
) -> jax.Array:
    """The rows of each expert times the kernel of that expert.

    Equivalent to `concatenate([rows[start[e] : start[e] + sizes[e]] @ kernels[e] for e in range(E)])`, and zeros for
    the rows beyond the last group. What those rows hold, NaN too, reaches neither the result nor a gradient; the
    gradient of an expert without rows is 0.

    Args:
        rows: `[n, D]`, floating point, sorted by expert.
        kernels: `[E, D, F]`, floating point, finite.
        sizes: int32 `[E]`, the rows of each expert; not negative, at most `n` together.
        tiling: the tiles of the tiled forms; not used here, one signature serves all forms.

    Returns:
        `[n, F]` in the dtype of `rows`, split as the rows and as the kernels' columns; summed in at least float32.

    Raises:
        ValueError: the shapes do not fit, the sizes are not int32, or the tiling is not three or nine numbers above 0.
    """
    if rows.ndim != 2 or kernels.ndim != 3 or rows.shape[1] != kernels.shape[1] or sizes.shape != kernels.shape[:1]:
        raise ValueError(
            f"rows, kernels and sizes have shapes {rows.shape}, {kernels.shape} and {sizes.shape}; expected [n, D], "
            "[E, D, F] and [E]"
        )
    if sizes.dtype != jnp.int32:
        raise ValueError(f"sizes have dtype {sizes.dtype}; expected int32")
    if len(tiling) not in (3, 9) or min(tiling) < 1:
        raise ValueError(f"tiling is {tiling}; expected 3 numbers (rows, D, F) or 9, each at least 1")

    def products(rows: jax.Array, kernels: jax.Array, sizes: jax.Array) -> jax.Array:
        wide = jnp.promote_types(rows.dtype, jnp.float32)
        out = jnp.zeros((rows.shape[0], kernels.shape[2]), wide)
        place, start = jnp.arange(rows.shape[0])[:, None], jnp.zeros((), jnp.int32)
        for expert in range(kernels.shape[0]):
            mine = (place >= start) & (place < start + sizes[expert])
            # Masked before the product: 0 times NaN would be NaN in the gradient of the kernel.
            out += jnp.where(mine, rows, 0).astype(wide) @ kernels[expert].astype(wide)
            start += sizes[expert]
        # A second time for the rows beyond, whose zeros are products too: what is sent back to them is 0.
        return jnp.where(place < start, out, 0).astype(rows.dtype)

    if not jax.sharding.get_abstract_mesh().explicit_axes:
        return products(rows, kernels, sizes)  # inside a shard_map too, where nothing is left to a compiler
    row, column = jax.typeof(rows).sharding.spec[0], jax.typeof(kernels).sharding.spec[2]
    out = jax.sharding.PartitionSpec(row, column)
    placed: jax.Array = jax.sharding.auto_axes(products, out_sharding=out)(rows, kernels, sizes)
    return placed
