"""Experts of limited capacity as four matrix products: a mask of zeros and ones dispatches tokens to experts.

All shapes are known beforehand, so that a matrix unit can do the work and the compiler places it on a mesh; what it
costs is the mask, `[batch, seq, experts, capacity]`.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec


def dispatch_einsum(
    x: jax.Array,
    ids: jax.Array,
    weights: jax.Array,
    w_gate: jax.Array,
    w_up: jax.Array,
    w_down: jax.Array,
    *,
    capacity_factor: float,
) -> jax.Array:
    """Each expert gets a table of `capacity` rows per sequence, filled in the order of tokens and of their choices.

    Equivalent to `counted`, whose docstring has the rule for who comes too late: with `places[b, s, e, c]` 1 where
    token `s` has place `c` of expert `e`, and 0 elsewhere,

        tables = einsum("bsm,bsec->ebcm", x, places)
        answers = expert(tables)
        out = einsum("ebcm,bsec->bsm", answers, sum over k of weights * places)

    A place holds one row, so the first product copies, and the same numbers are rounded as in `counted`.

    Args:
        x: `[batch, seq, embed]`, floating point, finite; a sequence is not split.
        ids: `[batch, seq, top_k]`, an integer dtype, in `[0, experts)`.
        weights: `[batch, seq, top_k]`, floating point, finite.
        w_gate, w_up: `[experts, embed, hidden]`.
        w_down: `[experts, hidden, embed]`.
        capacity_factor: of an even share of the choices, rounded up; above 0.

    Returns:
        `[batch, seq, embed]`, the dtype of `x`, split as `x` is.

    Raises:
        ValueError: the factor leaves no place, the ids are not integers, or the shapes do not fit.

    Source: Lepikhin et al., GShard, arXiv 2006.16668, section 3.1 (algorithm 2).
    """
    capacity = _capacity(x, ids, weights, w_gate, w_up, w_down, capacity_factor)
    wide = jnp.promote_types(x.dtype, jnp.float32)
    experts = w_gate.shape[0]

    def layer(
        x: jax.Array, ids: jax.Array, weights: jax.Array, w_gate: jax.Array, w_up: jax.Array, w_down: jax.Array
    ) -> jax.Array:
        batch, seq, top_k = ids.shape
        asked = (ids[..., None] == jnp.arange(experts)).reshape(batch, seq * top_k, experts)
        earlier = jnp.cumsum(asked, axis=1, dtype=jnp.int32) - asked
        places = (asked[..., None] & (earlier[..., None] == jnp.arange(capacity))).reshape(
            batch, seq, top_k, experts, capacity
        )
        shares = jnp.sum(jnp.where(places, weights[..., None, None].astype(wide), 0), axis=2)
        # A token has a place or has it not; one that chose an expert twice has two of its places.
        tables = jnp.einsum("bsm,bsec->ebcm", x, places.any(2).astype(x.dtype))
        gate, up = (_product(tables, kernel) for kernel in (w_gate, w_up))
        hidden = (jax.nn.silu(gate) * up).astype(x.dtype)
        answers = _product(hidden, w_down).astype(x.dtype)
        return jnp.einsum("ebcm,bsec->bsm", answers.astype(wide), shares).astype(x.dtype)

    # Tables are split by expert, tokens by sequence: where shardings are part of types, the compiler goes between them.
    spec = PartitionSpec(*jax.typeof(x).sharding.spec)
    return jax.sharding.auto_axes(layer, out_sharding=spec)(x, ids, weights, w_gate, w_up, w_down)


def _product(tables: jax.Array, kernel: jax.Array) -> jax.Array:
    """Every expert's table by its own kernel, summed in at least float32: factors of bfloat16 are exact in it."""
    wide = jnp.promote_types(tables.dtype, jnp.float32)
    return jnp.einsum("ebcm,emh->ebch", tables.astype(wide), kernel.astype(wide))


def _capacity(
    x: jax.Array,
    ids: jax.Array,
    weights: jax.Array,
    w_gate: jax.Array,
    w_up: jax.Array,
    w_down: jax.Array,
    capacity_factor: float,
) -> int:
    if not jnp.issubdtype(ids.dtype, jnp.integer):
        raise ValueError(f"ids have dtype {ids.dtype}; expected an integer dtype")
    if x.ndim != 3 or ids.ndim != 3 or ids.shape[:2] != x.shape[:2] or weights.shape != ids.shape:
        raise ValueError(
            f"x, ids and weights have shapes {x.shape}, {ids.shape} and {weights.shape}; expected [batch, seq, embed], "
            "[batch, seq, top_k], [batch, seq, top_k]"
        )
    up = (w_gate.shape[0], x.shape[2], w_gate.shape[-1])
    if w_gate.ndim != 3 or not (w_gate.shape == w_up.shape == up and w_down.shape == (up[0], up[2], up[1])):
        raise ValueError(
            f"w_gate, w_up and w_down have shapes {w_gate.shape}, {w_up.shape} and {w_down.shape}; expected "
            "[experts, embed, hidden], [experts, embed, hidden], [experts, hidden, embed]"
        )
    share = math.ceil(ids.shape[1] * ids.shape[2] / w_gate.shape[0])
    capacity = int(max(share * capacity_factor, capacity_factor))
    if capacity < 1:
        raise ValueError(f"capacity_factor is {capacity_factor}; expected one that leaves an expert a place or more")
    return capacity
