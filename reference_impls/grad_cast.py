"""The gradients of a step as passed to the optimizer: float32 leaves cast to a dtype, then clipped by global norm.

Source: the order is that of MaxText's train step, cast before `optax.clip_by_global_norm`; the clipping is Pascanu et
al., "On the difficulty of training Recurrent Neural Networks", 2013 (arXiv 1211.5063), algorithm 1, over all leaves.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp


def cast_always(
    kernel: jax.Array, scale: jax.Array, *, grad_dtype: str = "float32", max_norm: float | None = None
) -> dict[str, jax.Array]:
    """Every float32 gradient in `grad_dtype`, the norm of what came out, and that clipped.

    Equivalent to, for every leaf: `leaf = leaf.astype(grad_dtype)` where it is float32; `norm = sqrt(sum(leaf**2))`
    over all leaves in at least float32; `leaf = leaf / norm * max_norm` in the dtype of the leaf where the norm is not
    below `max_norm`. A gradient that is not float32 keeps its dtype, whatever `grad_dtype` is.

    Args:
        kernel: `[rows, columns]`, floating point; the gradient of a matrix.
        scale: `[columns]`, floating point; the gradient of a vector, in a dtype of its own.
        grad_dtype: the floating point dtype of what was float32.
        max_norm: the largest norm, above 0; None clips nothing.

    Returns:
        `kernel` and `scale`, shapes as they came, split as they were; `norm`, a scalar of float32 (float64 if a leaf is
        that), before the clipping.

    Raises:
        ValueError: `grad_dtype` is no floating point dtype, or `max_norm` is not above 0.
    """
    if not jnp.issubdtype(jnp.dtype(grad_dtype), jnp.floating):
        raise ValueError(f"grad_dtype is {grad_dtype}; expected a floating point dtype")
    if max_norm is not None and not max_norm > 0:
        raise ValueError(f"max_norm is {max_norm}; expected a number above 0, or None")
    leaves = {"kernel": kernel, "scale": scale}
    for name, leaf in leaves.items():
        if leaf.dtype == jnp.float32:
            leaves[name] = leaf.astype(grad_dtype)
    norm = jnp.sqrt(sum(_squares(leaf) for leaf in leaves.values()))
    if max_norm is not None:
        for name, leaf in leaves.items():
            clipped = leaf / norm.astype(leaf.dtype) * max_norm
            leaves[name] = jnp.where(norm < max_norm, leaf, clipped)
    return {**leaves, "norm": norm}


def _squares(leaf: jax.Array) -> jax.Array:
    """The sum of the squares in at least float32."""
    return jnp.sum(jnp.square(leaf.astype(jnp.promote_types(leaf.dtype, jnp.float32))))
