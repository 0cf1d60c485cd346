"""A weighted sum of rows gathered by index, in groups: the same function, jitted in other ways.

`functools.partial(jax.jit, ...)` is the spelling of versions of jax whose `jit` takes no call without a function.
"""

from __future__ import annotations

import functools
from typing import Literal

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec


@functools.partial(jax.jit, static_argnames=("group", "reduce"))
def partial(
    rows: jax.Array, ids: jax.Array, weights: jax.Array, *, group: int = 2, reduce: Literal["sum", "mean"] = "sum"
) -> jax.Array:
    """The weighted sum, or mean, of every `group` rows that `ids` names one after the other.

    Equivalent to `(weights[:, None] * rows[ids]).reshape(-1, group, columns).sum(axis=1)`, added up from left to right
    in at least float32, and rounded once; a mean divides by `group` before.

    Args:
        rows: `[rows, columns]`, floating point.
        ids: `[outputs * group]`, int32, of `[0, rows)`.
        weights: `[outputs * group]`, the dtype of `rows`.
        group: static; how many rows are added up.
        reduce: static; `sum` or `mean`.

    Returns:
        `[outputs, columns]`, the dtype of `rows`; split as `ids` and the columns of `rows` are.

    Raises:
        ValueError: the shapes do not fit, `group` does not divide the ids, or `reduce` is another word.

    Source: MaxText pull request 3922, item 3.
    """
    return _gather_reduce(rows, ids, weights, group, reduce)


def wrapped_late(
    rows: jax.Array, ids: jax.Array, weights: jax.Array, *, group: int = 2, reduce: Literal["sum", "mean"] = "sum"
) -> jax.Array:
    """The weighted sum, or mean, of every `group` rows that `ids` names one after the other.

    Equivalent to `(weights[:, None] * rows[ids]).reshape(-1, group, columns).sum(axis=1)`, added up from left to right
    in at least float32, and rounded once; a mean divides by `group` before.

    Args:
        rows: `[rows, columns]`, floating point.
        ids: `[outputs * group]`, int32, of `[0, rows)`.
        weights: `[outputs * group]`, the dtype of `rows`.
        group: static; how many rows are added up.
        reduce: static; `sum` or `mean`.

    Returns:
        `[outputs, columns]`, the dtype of `rows`; split as `ids` and the columns of `rows` are.

    Raises:
        ValueError: the shapes do not fit, `group` does not divide the ids, or `reduce` is another word.

    Source: the functional form of the `jax.jit` documentation.
    """
    return _gather_reduce(rows, ids, weights, group, reduce)


wrapped_late = jax.jit(wrapped_late, static_argnames=("group", "reduce"))


def _gather_reduce(rows: jax.Array, ids: jax.Array, weights: jax.Array, group: int, reduce: str) -> jax.Array:
    if rows.ndim != 2 or ids.ndim != 1 or weights.shape != ids.shape:
        raise ValueError(
            f"rows, ids and weights have shapes {rows.shape}, {ids.shape} and {weights.shape}; "
            "expected [rows, columns], [outputs * group] and [outputs * group]"
        )
    if group < 1 or ids.shape[0] % group:
        raise ValueError(f"group is {group}; expected a number above 0 that divides the {ids.shape[0]} ids")
    if reduce not in ("sum", "mean"):
        raise ValueError(f"reduce is '{reduce}'; expected sum or mean")

    def combine(rows: jax.Array, ids: jax.Array, weights: jax.Array) -> jax.Array:
        wide = jnp.promote_types(rows.dtype, jnp.float32)
        parts = rows[ids].astype(wide) * weights.astype(wide)[:, None]
        parts = parts.reshape(-1, group, rows.shape[1])
        total = parts[:, 0]
        for part in range(1, group):
            total = total + parts[:, part]
        return (total / group if reduce == "mean" else total).astype(rows.dtype)

    # The gather is left to the compiler where shardings are part of types.
    spec = PartitionSpec(_axes(ids, 0), _axes(rows, 1))
    return jax.sharding.auto_axes(combine, out_sharding=spec)(rows, ids, weights)


def _axes(array: jax.Array, dimension: int) -> str | tuple[str, ...] | None:
    """The mesh axes that split a dimension, as the type says."""
    spec = jax.typeof(array).sharding.spec
    return spec[dimension] if dimension < len(spec) else None
