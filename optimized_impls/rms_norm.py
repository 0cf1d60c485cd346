"""RMSNorm with an elementwise product in place of the einsum.

The product fuses into the loop that normalises and leaves no operand of a matrix product behind to be stored.
Source of the change: MaxText pull request 3922, item 5.
"""

from __future__ import annotations

import functools
import math

import jax
import jax.numpy as jnp


def multiply(x: jax.Array, scale: jax.Array, *, epsilon: float = 1e-6, scale_offset: float = 0.0) -> jax.Array:
    """RMSNorm whose last step is `normalised * effective`.

    The forward product rounds once, like the einsum's. The gradient of the scale is a sum *in the dtype of `x`*: in
    bfloat16 its error is several times the einsum's. `multiply_accurate` has the same forward pass without that loss.

    Args:
        x: `[..., embed]`, floating point.
        scale: `[embed]`, floating point; cast to the dtype of `x`.
        epsilon: added to the mean of squares; not negative.
        scale_offset: added to the scale in the dtype of `x`; no addition is made for 0.

    Returns:
        `[..., embed]`, the dtype and the sharding of `x`.

    Raises:
        ValueError: epsilon is negative or not finite, or the scale is not one number per column.
    """
    normalised = _normalise(x, scale, epsilon)
    return normalised * _effective(x, scale, scale_offset)


def multiply_accurate(x: jax.Array, scale: jax.Array, *, epsilon: float = 1e-6, scale_offset: float = 0.0) -> jax.Array:
    """RMSNorm whose last step is a product with a gradient at least as accurate as the einsum's.

    Equivalent to `multiply` forward. Backward the products are those of the einsum's derivative, on numbers widened to
    at least float32: each gradient is rounded once, at its end. There is no forward-mode derivative.

    Args:
        x: `[..., embed]`, floating point.
        scale: `[embed]`, floating point; cast to the dtype of `x`.
        epsilon: added to the mean of squares; not negative.
        scale_offset: added to the scale in the dtype of `x`; no addition is made for 0.

    Returns:
        `[..., embed]`, the dtype and the sharding of `x`.

    Raises:
        ValueError: epsilon is negative or not finite, or the scale is not one number per column.
    """
    return _scaled(scale_offset, _normalise(x, scale, epsilon), scale)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _scaled(scale_offset: float, normalised: jax.Array, scale: jax.Array) -> jax.Array:
    """`normalised * effective`, with a derivative that is summed wide and rounded once, to the dtype of the scale."""
    return normalised * _effective(normalised, scale, scale_offset)


def _scaled_forward(
    scale_offset: float, normalised: jax.Array, scale: jax.Array
) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    return _scaled(scale_offset, normalised, scale), (normalised, scale)


def _scaled_backward(
    scale_offset: float, saved: tuple[jax.Array, jax.Array], cotangent: jax.Array
) -> tuple[jax.Array, jax.Array]:
    normalised, scale = saved
    effective = _effective(normalised, scale, scale_offset)
    # A sum over rows that is split over devices is added up across them in the wide dtype too, and only then rounded.
    _, pull = jax.vjp(functools.partial(jnp.einsum, "...k,k->...k"), _widen(normalised), _widen(effective))
    to_normalised, to_scale = pull(_widen(cotangent))
    return to_normalised.astype(normalised.dtype), _split(to_scale.astype(scale.dtype), scale, axis=0)


_scaled.defvjp(_scaled_forward, _scaled_backward)


def _widen(array: jax.Array) -> jax.Array:
    """The same numbers in at least float32."""
    wide = jnp.promote_types(array.dtype, jnp.float32)
    if wide == array.dtype:
        return array
    # A cast alone would let the compiler take the number as it was before it was rounded (measured: scale + offset).
    info = jnp.finfo(array.dtype)
    return jax.lax.reduce_precision(array.astype(wide), exponent_bits=info.nexp, mantissa_bits=info.nmant)


def _normalise(x: jax.Array, scale: jax.Array, epsilon: float) -> jax.Array:
    """The rows divided by their root mean square, rounded to the dtype of `x`."""
    if not (math.isfinite(epsilon) and epsilon >= 0):
        raise ValueError(f"epsilon is {epsilon}; expected a finite number of at least 0")
    if scale.shape != x.shape[-1:]:
        raise ValueError(f"scale has shape {scale.shape}; expected {x.shape[-1:]}, one number per column of x")
    wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
    mean_square = jnp.mean(jnp.square(wide), axis=-1, keepdims=True)
    return (wide * jax.lax.rsqrt(mean_square + epsilon)).astype(x.dtype)


def _effective(x: jax.Array, scale: jax.Array, scale_offset: float) -> jax.Array:
    """What the columns of `x` are multiplied by, in their dtype and split over the mesh as they are."""
    narrow = scale.astype(x.dtype)
    return _split(narrow + scale_offset if scale_offset else narrow, x, axis=-1)


def _split(row: jax.Array, like: jax.Array, *, axis: int) -> jax.Array:
    """A row split over the mesh as an axis of another array is, where shardings are part of types."""
    if not jax.sharding.get_abstract_mesh().explicit_axes:
        return row
    return jax.sharding.reshard(row, jax.sharding.PartitionSpec(jax.typeof(like).sharding.spec[axis]))
