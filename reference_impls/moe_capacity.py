"""A mixture of experts of limited capacity: tokens beyond an expert's capacity are dropped. Counted token by token.

Source: Lepikhin et al., GShard, arXiv 2006.16668, section 2.2 (a token whose expert is full is passed on by the
residual connection alone); Fedus et al., Switch Transformers, arXiv 2101.03961, equation 3, for the capacity.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec


def counted(
    x: jax.Array,
    ids: jax.Array,
    weights: jax.Array,
    w_gate: jax.Array,
    w_up: jax.Array,
    w_down: jax.Array,
    *,
    capacity_factor: float,
) -> jax.Array:
    """The weighted answers of each token's experts, of which each answers the first `capacity` choices of a sequence.

    Equivalent, for one sequence, to

        capacity = int(max(ceil(seq * top_k / experts) * capacity_factor, capacity_factor))
        taken = [0] * experts
        for s in range(seq):
            for k in range(top_k):
                e = ids[s, k]
                if taken[e] < capacity:
                    out[s] += weights[s, k] * (silu(x[s] @ w_gate[e]) * (x[s] @ w_up[e])) @ w_down[e]
                taken[e] += 1

    A choice too many has weight 0, and no gradient; the other weights stay as they are. Whoever chooses an expert
    twice takes two of its places. Sums are in at least float32; rounded to the dtype of `x` are, once each, the hidden
    numbers, each expert's answer, and the weighted sum.

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
    """
    capacity = _capacity(x, ids, weights, w_gate, w_up, w_down, capacity_factor)
    wide = jnp.promote_types(x.dtype, jnp.float32)
    experts = w_gate.shape[0]

    def layer(
        x: jax.Array, ids: jax.Array, weights: jax.Array, w_gate: jax.Array, w_up: jax.Array, w_down: jax.Array
    ) -> jax.Array:
        def choice(taken: jax.Array, ids: jax.Array) -> tuple[jax.Array, jax.Array]:
            """One choice of every sequence: who still finds a place, and the places taken after it."""
            asked = ids[:, None] == jnp.arange(experts)
            return taken + asked, jnp.any(asked & (taken < capacity), axis=1)

        batch, seq, top_k = ids.shape
        in_order = ids.reshape(batch, seq * top_k).T
        kept = jax.lax.scan(choice, jnp.zeros((batch, experts), jnp.int32), in_order)[1].T.reshape(ids.shape)

        gate, up = (jnp.einsum("bsd,edf->bsef", x.astype(wide), kernel.astype(wide)) for kernel in (w_gate, w_up))
        hidden = (jax.nn.silu(gate) * up).astype(x.dtype)
        answers = jnp.einsum("bsef,efd->bsed", hidden.astype(wide), w_down.astype(wide)).astype(x.dtype)
        chosen = (ids[..., None] == jnp.arange(experts)) & kept[..., None]
        shares = jnp.sum(jnp.where(chosen, weights[..., None].astype(wide), 0), axis=2)
        return jnp.einsum("bsed,bse->bsd", answers.astype(wide), shares).astype(x.dtype)

    places = PartitionSpec(*jax.typeof(x).sharding.spec)
    # Experts are split over devices: where shardings are part of types, the compiler places the sums over them.
    return jax.sharding.auto_axes(layer, out_sharding=places)(x, ids, weights, w_gate, w_up, w_down)


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
