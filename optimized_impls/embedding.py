"""Embedding lookup as a gather of rows, with and without a guard on the one-hot form, and with a wider gradient.

A gather needs memory for its result alone; the one-hot form needs `batch * seq * vocab` elements besides.
Source of the guard: MaxText pull request 3922, item 7.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec


def gather(ids: jax.Array, table: jax.Array, *, one_hot_limit: int = 2 * 2**30) -> jax.Array:
    """Look up the rows by a gather; the gradient of the table is the scatter-add that autodiff derives.

    Equivalent to `table[i] if 0 <= i < vocab else zeros(embed)` for each id `i`. The scatter-add sums in the table's
    dtype: in bfloat16 a token that is frequent enough stops gaining (`gather_float32_gradient` does not).

    Args:
        ids: `[batch, seq]`, or any other shape; an integer dtype.
        table: `[vocab, embed]`, floating point.
        one_hot_limit: bytes; not used here, one signature serves all forms.

    Returns:
        `[batch, seq, embed]`, the dtype of the table; batch and seq split as the ids are, embed as the table is.

    Raises:
        ValueError: the ids are not integers, the table is not a matrix, or the limit is negative.
    """
    _check(ids, table, one_hot_limit)
    return _rows(ids, table)


def guarded(ids: jax.Array, table: jax.Array, *, one_hot_limit: int = 2 * 2**30) -> jax.Array:
    """Look up by a one-hot matrix product while the one-hot rows are small, by a gather otherwise.

    Equivalent to `gather` for a finite table without -0.0. Which form runs depends on the shapes alone.

    Args:
        ids: `[batch, seq]`, or any other shape; an integer dtype.
        table: `[vocab, embed]`, floating point.
        one_hot_limit: the largest size of the one-hot rows, in bytes over all devices, that is still accepted.

    Returns:
        `[batch, seq, embed]`, the dtype of the table; batch and seq split as the ids are, embed as the table is.

    Raises:
        ValueError: the ids are not integers, the table is not a matrix, or the limit is negative.
    """
    _check(ids, table, one_hot_limit)
    if ids.size * table.shape[0] * table.dtype.itemsize > one_hot_limit:
        return _rows(ids, table)
    one_hot = (ids[..., None] == jnp.arange(table.shape[0], dtype=jnp.int32)).astype(table.dtype)
    wide = jnp.promote_types(table.dtype, jnp.float32)
    rows = jnp.dot(
        one_hot,
        table,
        precision=_precision(table),
        preferred_element_type=wide,
        out_sharding=_output_sharding(ids, table),
    )
    return rows.astype(table.dtype)


def gather_float32_gradient(ids: jax.Array, table: jax.Array, *, one_hot_limit: int = 2 * 2**30) -> jax.Array:
    """Look up the rows by a gather; the gradient of the table is summed in at least float32 and rounded once.

    Args:
        ids: `[batch, seq]`, or any other shape; an integer dtype.
        table: `[vocab, embed]`, floating point.
        one_hot_limit: bytes; not used here, one signature serves all forms.

    Returns:
        `[batch, seq, embed]`, the dtype of the table; batch and seq split as the ids are, embed as the table is.

    Raises:
        ValueError: the ids are not integers, the table is not a matrix, or the limit is negative.
    """
    _check(ids, table, one_hot_limit)
    return _rows_accurate(ids, table)


@jax.custom_vjp
def _rows_accurate(ids: jax.Array, table: jax.Array) -> jax.Array:
    return _rows(ids, table)


def _rows_forward(ids: jax.Array, table: jax.Array) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    # Of the table only shape, dtype and sharding are used: it is a parameter, so keeping it costs nothing.
    return _rows(ids, table), (ids, table)


def _rows_backward(saved: tuple[jax.Array, jax.Array], cotangent: jax.Array) -> tuple[None, jax.Array]:
    ids, table = saved
    wide = jnp.promote_types(table.dtype, jnp.float32)
    # The gather is linear in the table: its transpose at a wider dtype is the scatter-add with wider sums.
    _, pull = jax.vjp(lambda rows: _rows(ids, rows), table.astype(wide))
    (gradient,) = pull(cotangent.astype(wide))
    return None, gradient.astype(table.dtype)


_rows_accurate.defvjp(_rows_forward, _rows_backward)


def _rows(ids: jax.Array, table: jax.Array) -> jax.Array:
    """The rows of the ids; zeros for an id that is negative or at least `vocab`."""
    # By default a gather wraps negative ids around and clamps those that are too large: neither is asked for here.
    return table.at[ids].get(
        mode="fill", fill_value=0, wrap_negative_indices=False, out_sharding=_output_sharding(ids, table)
    )


def _check(ids: jax.Array, table: jax.Array, one_hot_limit: int) -> None:
    if not jnp.issubdtype(ids.dtype, jnp.integer):
        raise ValueError(f"ids have dtype {ids.dtype}; expected an integer dtype")
    if table.ndim != 2:
        raise ValueError(f"the table has shape {table.shape}; expected [vocab, embed]")
    if one_hot_limit < 0:
        raise ValueError(f"one_hot_limit is {one_hot_limit}; expected a number of bytes of at least 0")


def _precision(table: jax.Array) -> jax.lax.Precision | None:
    """All digits of the table: by default a GPU takes float32 as TensorFloat-32, and a TPU as bfloat16.

    Nothing is lost of bfloat16, and its gradient would take more passes for nothing.
    """
    return None if jnp.finfo(table.dtype).nmant < 8 else jax.lax.Precision.HIGHEST


def _output_sharding(ids: jax.Array, table: jax.Array) -> NamedSharding | None:
    """How the output lies where shardings are part of types; None where the compiler chooses."""
    mesh = jax.sharding.get_abstract_mesh()
    if not mesh.explicit_axes:
        return None
    return NamedSharding(mesh, PartitionSpec(*jax.typeof(ids).sharding.spec, jax.typeof(table).sharding.spec[1]))
