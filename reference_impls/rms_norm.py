"""RMSNorm, written as its definition: normalise in at least float32, round, then scale.

Source: Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019 (arXiv 1910.07467), equation 4, with the
epsilon inside the root. The order of the casts is that of Hugging Face's and MaxText's Llama layers: the normalised
row is rounded to the activation's dtype *before* it is scaled.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp


def einsum(x: jax.Array, scale: jax.Array, *, epsilon: float = 1e-6, scale_offset: float = 0.0) -> jax.Array:
    """Divide each row by its root mean square and scale its columns.

    Equivalent to `x / sqrt(mean(x**2, axis=-1) + epsilon) * (scale + scale_offset)`. The product is an einsum, so the
    gradient of the scale is a matrix product, which accumulates wider than bfloat16.

    Args:
        x: `[..., embed]`, floating point.
        scale: `[embed]`, floating point; cast to the dtype of `x`.
        epsilon: added to the mean of squares; not negative.
        scale_offset: added to the scale in the dtype of `x` (in bfloat16, 1 + 0.001 is 1). Qwen3-Next stores scale - 1.

    Returns:
        `[..., embed]`, the dtype and the sharding of `x`.

    Raises:
        ValueError: epsilon is negative or not finite, or the scale is not one number per column.
    """
    if not (math.isfinite(epsilon) and epsilon >= 0):
        raise ValueError(f"epsilon is {epsilon}; expected a finite number of at least 0")
    if scale.shape != x.shape[-1:]:
        raise ValueError(f"scale has shape {scale.shape}; expected {x.shape[-1:]}, one number per column of x")
    wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
    mean_square = jnp.mean(jnp.square(wide), axis=-1, keepdims=True)
    normalised = (wide * jax.lax.rsqrt(mean_square + epsilon)).astype(x.dtype)
    effective = _split_as_columns(x, scale.astype(x.dtype) + scale_offset)
    return jnp.einsum("...k,k->...k", normalised, effective)


def _split_as_columns(x: jax.Array, effective: jax.Array) -> jax.Array:
    """The same numbers, lying on the mesh as the columns of `x` do, where shardings are part of types.

    Without it an einsum of split columns with a replicated scale gathers the columns.
    """
    if not jax.sharding.get_abstract_mesh().explicit_axes:
        return effective
    return jax.sharding.reshard(effective, jax.sharding.PartitionSpec(jax.typeof(x).sharding.spec[-1]))
