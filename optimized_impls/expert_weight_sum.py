"""The weighted sum of a token's expert outputs, without a matrix product.

A product of a `[k, width]` by a `[k]` uses a matrix unit badly: it is as long as a token has choices. The elementwise
forms fuse with what comes after. In at least float32 they are the einsum; in the dtype of the rows they are not.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec


def multiply_sum(rows: jax.Array, weights: jax.Array) -> jax.Array:
    """The weighted sum as a product in at least float32, and a sum over the choices that is rounded once.

    Args:
        rows: `[tokens * k, width]`, floating point, finite; the answers to token `t` are the rows from `t * k` on.
        weights: `[tokens, k]`, floating point, finite; float32 beside rows of bfloat16.

    Returns:
        `[tokens, width]`, the dtype of the rows; split as they are.

    Raises:
        ValueError: there is not one row for each weight.
    """
    return _placed(_multiply_sum, rows, weights)


def unrolled(rows: jax.Array, weights: jax.Array) -> jax.Array:
    """The weighted sum choice after choice in at least float32: no array of `tokens * k` rows is widened.

    Args:
        rows: `[tokens * k, width]`, floating point, finite; the answers to token `t` are the rows from `t * k` on.
        weights: `[tokens, k]`, floating point, finite; float32 beside rows of bfloat16.

    Returns:
        `[tokens, width]`, the dtype of the rows; split as they are.

    Raises:
        ValueError: there is not one row for each weight.
    """
    return _placed(_unrolled, rows, weights)


def native_dtype(rows: jax.Array, weights: jax.Array) -> jax.Array:
    """The weighted sum with the weights, the products and the sum in the dtype of the rows.

    In bfloat16 the weights lose 16 of their 24 bits, and the gradient of a weight is a sum over the width in bfloat16:
    `multiply_sum` has neither loss.

    Args:
        rows: `[tokens * k, width]`, floating point, finite; the answers to token `t` are the rows from `t * k` on.
        weights: `[tokens, k]`, floating point, finite; rounded to the dtype of the rows.

    Returns:
        `[tokens, width]`, the dtype of the rows; split as they are.

    Raises:
        ValueError: there is not one row for each weight.

    Source: MaxText pull request 3922, item 1.
    """
    return _placed(_native_dtype, rows, weights)


def _multiply_sum(rows: jax.Array, weights: jax.Array) -> jax.Array:
    wide = jnp.promote_types(rows.dtype, jnp.float32)
    return jnp.sum(_answers(rows, weights).astype(wide) * weights.astype(wide)[..., None], axis=1).astype(rows.dtype)


def _unrolled(rows: jax.Array, weights: jax.Array) -> jax.Array:
    wide = jnp.promote_types(rows.dtype, jnp.float32)
    answers = _answers(rows, weights)
    terms = (answers[:, k].astype(wide) * weights[:, k, None].astype(wide) for k in range(weights.shape[1]))
    return functools.reduce(jnp.add, terms).astype(rows.dtype)


def _native_dtype(rows: jax.Array, weights: jax.Array) -> jax.Array:
    return jnp.sum(_answers(rows, weights) * weights.astype(rows.dtype)[..., None], axis=1)


def _answers(rows: jax.Array, weights: jax.Array) -> jax.Array:
    """The rows as `[tokens, k, width]`."""
    return rows.reshape(*weights.shape, rows.shape[1])


def _placed(function: Callable[..., jax.Array], rows: jax.Array, weights: jax.Array) -> jax.Array:
    """The function after the checks, its reshape left to the compiler where shardings are part of types."""
    if rows.ndim != 2 or weights.ndim != 2 or rows.shape[0] != weights.size:
        raise ValueError(
            f"rows and weights have shapes {rows.shape} and {weights.shape}; expected [tokens * k, width], [tokens, k]"
        )
    if not jax.sharding.get_abstract_mesh().explicit_axes:
        return function(rows, weights)  # inside a shard_map too, where nothing is left to a compiler
    spec = PartitionSpec(*jax.typeof(rows).sharding.spec)
    return jax.sharding.auto_axes(function, out_sharding=spec)(rows, weights)
