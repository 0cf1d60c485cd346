"""The gradients of a step as passed to the optimizer: cast only where the dtype differs, or cast after clipping.

`guarded` skips the traversal of the tree where float32 stays float32. `clip_first` clips what is still float32, and
rounds once.
"""

from __future__ import annotations

import functools
import operator

import jax
import jax.numpy as jnp


def guarded(
    kernel: jax.Array, scale: jax.Array, *, grad_dtype: str = "float32", max_norm: float | None = None
) -> dict[str, jax.Array]:
    """The gradients cast only where `grad_dtype` is not float32, their norm, and clipped.

    Equal to a cast of every leaf only because nothing but float32 is cast: a bfloat16 leaf is left alone by both.

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

    Source: MaxText pull request 3922, item 13 (b).
    """
    _check(grad_dtype, max_norm)
    gradients = {"kernel": kernel, "scale": scale}
    if jnp.dtype(grad_dtype) != jnp.float32:
        gradients = jax.tree.map(lambda leaf: _narrow(leaf, grad_dtype), gradients)
    norm = _norm(gradients)
    return {**_clipped(gradients, norm, max_norm), "norm": norm}


def clip_first(
    kernel: jax.Array, scale: jax.Array, *, grad_dtype: str = "float32", max_norm: float | None = None
) -> dict[str, jax.Array]:
    """The gradients clipped as they came and cast afterwards; the norm is that of the gradients as they came.

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
    _check(grad_dtype, max_norm)
    gradients = {"kernel": kernel, "scale": scale}
    norm = _norm(gradients)
    found = _clipped(gradients, norm, max_norm)
    return {**jax.tree.map(lambda leaf: _narrow(leaf, grad_dtype), found), "norm": norm}


def _narrow(leaf: jax.Array, grad_dtype: str) -> jax.Array:
    """A float32 gradient in the dtype asked for, any other as it is."""
    return leaf.astype(grad_dtype) if leaf.dtype == jnp.float32 else leaf


def _norm(gradients: dict[str, jax.Array]) -> jax.Array:
    """The root of the sum of all squares, in at least float32."""
    wide = (leaf.astype(jnp.promote_types(leaf.dtype, jnp.float32)) for leaf in gradients.values())
    return jnp.sqrt(functools.reduce(operator.add, (jnp.sum(jnp.square(leaf)) for leaf in wide)))


def _clipped(gradients: dict[str, jax.Array], norm: jax.Array, max_norm: float | None) -> dict[str, jax.Array]:
    """The gradients as they are below the norm, else scaled to it, each in its own dtype."""
    if max_norm is None:
        return gradients
    return {
        name: jnp.where(norm < max_norm, leaf, leaf / norm.astype(leaf.dtype) * max_norm)
        for name, leaf in gradients.items()
    }


def _check(grad_dtype: str, max_norm: float | None) -> None:
    """The checks that every form has."""
    if not jnp.issubdtype(jnp.dtype(grad_dtype), jnp.floating):
        raise ValueError(f"grad_dtype is {grad_dtype}; expected a floating point dtype")
    if max_norm is not None and not max_norm > 0:
        raise ValueError(f"max_norm is {max_norm}; expected a number above 0, or None")
