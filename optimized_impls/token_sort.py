"""Tokens sorted by their experts, with a custom derivative that is a gather.

Autodiff turns the gather of rows into a scatter-add, which an accelerator runs row by row. Every choice of a token has
its own place among the sorted rows: the inverse permutation brings the cotangents back by a gather, and what is left is
a sum over the choices of each token.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec


def inverse_gather(rows: jax.Array, experts: jax.Array, *, num_experts: int) -> dict[str, jax.Array]:
    """One row for each choice of a token, those of an expert together; the gradient goes back by the inverse order.

    The cotangents of a token's copies are added up in at least float32 and rounded once. There is no forward-mode
    derivative.

    Args:
        rows: `[groups, tokens, width]`, the tokens of groups that never meet, such as shards of a batch.
        experts: `[groups, tokens, k]`, an integer dtype, in `[0, num_experts)`; a token may choose an expert twice.
        num_experts: how many there are; some may be chosen by nobody.

    Returns:
        `rows`, `[groups, tokens * k, width]`, and `sizes`, int32 `[groups, num_experts]`; split as the rows are, their
        tokens not at all.

    Raises:
        ValueError: the experts are not integers, there is none, or the shapes do not fit.
    """
    if not jnp.issubdtype(experts.dtype, jnp.integer):
        raise ValueError(f"experts have dtype {experts.dtype}; expected an integer dtype")
    if num_experts < 1:
        raise ValueError(f"num_experts is {num_experts}; expected at least 1")
    if rows.ndim != 3 or experts.ndim != 3 or experts.shape[:2] != rows.shape[:2]:
        raise ValueError(
            f"rows and experts have shapes {rows.shape} and {experts.shape}; expected [groups, tokens, width], "
            "[groups, tokens, k]"
        )
    return {"rows": _sorted(rows, experts), "sizes": _sizes(num_experts, rows, experts)}


@jax.custom_vjp
def _sorted(rows: jax.Array, experts: jax.Array) -> jax.Array:
    def group(rows: jax.Array, experts: jax.Array) -> jax.Array:
        return _take(rows, _order(experts) // experts.shape[1])

    return _placed(group, rows)(rows, experts)


def _sorted_forward(rows: jax.Array, experts: jax.Array) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    # Of the rows only the sharding is used, and the compiler drops the rest.
    return _sorted(rows, experts), (rows, experts)


def _sorted_backward(saved: tuple[jax.Array, jax.Array], cotangent: jax.Array) -> tuple[jax.Array, None]:
    rows, experts = saved

    def group(cotangent: jax.Array, experts: jax.Array) -> jax.Array:
        tokens, choices = experts.shape
        # The inverse of an order is the order of the order, and the choices of a token lie together again.
        copies = _take(cotangent, jnp.argsort(_order(experts))).reshape(tokens, choices, -1)
        if choices == 1:
            return copies[:, 0]
        wide = jnp.promote_types(copies.dtype, jnp.float32)
        return jnp.sum(copies.astype(wide), axis=1).astype(copies.dtype)

    return _placed(group, rows)(cotangent, experts), None


_sorted.defvjp(_sorted_forward, _sorted_backward)


def _sizes(num_experts: int, rows: jax.Array, experts: jax.Array) -> jax.Array:
    """How many choices each expert has."""

    def group(experts: jax.Array) -> jax.Array:
        return jnp.zeros(num_experts, jnp.int32).at[experts.reshape(-1)].add(1, mode="promise_in_bounds")

    split = PartitionSpec(jax.typeof(rows).sharding.spec[0])
    return jax.sharding.auto_axes(jax.vmap(group), out_sharding=split)(experts)


def _order(experts: jax.Array) -> jax.Array:
    """The choices by expert, and those of an expert in the order of the tokens."""
    return jnp.argsort(experts.reshape(-1), stable=True)


def _take(rows: jax.Array, places: jax.Array) -> jax.Array:
    # Every place is in range: the default for those that are not would cost a comparison and a selection.
    return rows.at[places].get(mode="promise_in_bounds")


def _placed(function: Any, rows: jax.Array) -> Any:
    """The function over groups, its sorts left to the compiler where shardings are part of types."""
    spec = jax.typeof(rows).sharding.spec
    return jax.sharding.auto_axes(jax.vmap(function), out_sharding=PartitionSpec(spec[0], None, spec[2]))
