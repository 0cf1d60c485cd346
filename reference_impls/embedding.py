"""Embedding lookup as a matrix product with one-hot rows, the form suited to a matrix unit.

Source: the `use_iota_embed` form of MaxText's embedding layer, itself from T5X (Roberts et al., "Scaling Up Models
and Data with t5x and seqio", 2022, arXiv 2203.17189).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp


def iota(ids: jax.Array, table: jax.Array, *, one_hot_limit: int = 2 * 2**30) -> jax.Array:
    """One row of the table for each id; a row of zeros for an id that the table does not have.

    Equivalent to `table[i] if 0 <= i < vocab else zeros(embed)` for each id `i`, for a finite table without -0.0
    (0 * inf is NaN, and a sum of zeros is +0.0) and without subnormal numbers, which XLA:CPU's product turns into 0.

    Args:
        ids: `[batch, seq]`, or any other shape; an integer dtype.
        table: `[vocab, embed]`, floating point.
        one_hot_limit: bytes; not used here, one signature serves all forms.

    Returns:
        `[batch, seq, embed]`, the dtype of the table; batch and seq split as the ids are, embed as the table is.

    Raises:
        ValueError: the ids are not integers, the table is not a matrix, or the limit is negative.
    """
    if not jnp.issubdtype(ids.dtype, jnp.integer):
        raise ValueError(f"ids have dtype {ids.dtype}; expected an integer dtype")
    if table.ndim != 2:
        raise ValueError(f"the table has shape {table.shape}; expected [vocab, embed]")
    if one_hot_limit < 0:
        raise ValueError(f"one_hot_limit is {one_hot_limit}; expected a number of bytes of at least 0")
    one_hot = (ids[..., None] == jnp.arange(table.shape[0], dtype=jnp.int32)).astype(table.dtype)
    # Forward one term per element is not zero, so this changes nothing; the gradient of the table is a sum over ids.
    # Left to itself XLA:CPU sums it in bfloat16 in some versions: 44.75 for 4096 times 0.01 (jax 0.12.0, not 0.10.2).
    wide = jnp.promote_types(table.dtype, jnp.float32)
    rows = jnp.dot(
        one_hot,
        table,
        precision=_precision(table),
        preferred_element_type=wide,
        out_sharding=_output_sharding(ids, table),
    )
    return rows.astype(table.dtype)


def _precision(table: jax.Array) -> jax.lax.Precision | None:
    """All digits of the table: by default a GPU takes float32 as TensorFloat-32, and a TPU as bfloat16.

    Nothing is lost of bfloat16, and its gradient would take more passes for nothing.
    """
    return None if jnp.finfo(table.dtype).nmant < 8 else jax.lax.Precision.HIGHEST


def _output_sharding(ids: jax.Array, table: jax.Array) -> jax.sharding.NamedSharding | None:
    """How the output lies where shardings are part of types: a product over a split vocabulary must be told."""
    mesh = jax.sharding.get_abstract_mesh()
    if not mesh.explicit_axes:
        return None
    spec = jax.sharding.PartitionSpec(*jax.typeof(ids).sharding.spec, jax.typeof(table).sharding.spec[1])
    return jax.sharding.NamedSharding(mesh, spec)
