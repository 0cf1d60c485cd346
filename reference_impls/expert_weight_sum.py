"""The weighted sum of a token's expert outputs, written as one einsum in at least float32.

Source: Shazeer et al., "Outrageously Large Neural Networks: The Sparsely-Gated Mixture-of-Experts Layer", 2017 (arXiv
1701.06538), equation 1, for the experts that a token chose.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec


def einsum(rows: jax.Array, weights: jax.Array) -> jax.Array:
    """The weighted sum over the choices of each token.

    Equivalent to `(rows.reshape(tokens, k, width) * weights[..., None]).sum(1)`, in at least float32, rounded once. A
    weight of 0 is a factor like any other: a row that nobody wrote must be finite all the same.

    Args:
        rows: `[tokens * k, width]`, floating point, finite; the answers to token `t` are the rows from `t * k` on.
        weights: `[tokens, k]`, floating point, finite; float32 beside rows of bfloat16.

    Returns:
        `[tokens, width]`, the dtype of the rows; split as they are.

    Raises:
        ValueError: there is not one row for each weight.
    """
    if rows.ndim != 2 or weights.ndim != 2 or rows.shape[0] != weights.size:
        raise ValueError(
            f"rows and weights have shapes {rows.shape} and {weights.shape}; expected [tokens * k, width], [tokens, k]"
        )

    def combine(rows: jax.Array, weights: jax.Array) -> jax.Array:
        wide = jnp.promote_types(rows.dtype, jnp.float32)
        answers = rows.reshape(*weights.shape, rows.shape[1]).astype(wide)
        # At its default precision a matrix unit would round the weights to bfloat16 after all.
        total = jnp.einsum("tkd,tk->td", answers, weights.astype(wide), precision=jax.lax.Precision.HIGHEST)
        return total.astype(rows.dtype)

    # The rows of a token lie on one device, which the reshape of a split dimension does not say where shardings are
    # part of types: leave it to the compiler.
    if not jax.sharding.get_abstract_mesh().explicit_axes:
        return combine(rows, weights)  # inside a shard_map too, where nothing is left to a compiler
    spec = PartitionSpec(*jax.typeof(rows).sharding.spec)
    return jax.sharding.auto_axes(combine, out_sharding=spec)(rows, weights)
