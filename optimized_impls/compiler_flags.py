"""The gated MLP compiled with sets of flags, which may change the program but no value.

The flags themselves are data of the suite (`RealSize.options`): they never reach the traced program.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp


def recipe(x: jax.Array, gate: jax.Array, up: jax.Array, down: jax.Array) -> jax.Array:
    """The block with the 31 flags of the recipe for sparse experts (MaxText #4170).

    Args:
        x: `[n, D]`, floating point.
        gate, up: `[D, F]` in the dtype of `x`.
        down: `[F, D]` in the dtype of `x`.

    Returns:
        `[n, D]` in the dtype of `x`; products are summed in at least float32.

    Raises:
        ValueError: the shapes do not fit.
    """
    return _block(x, gate, up, down)


def sparsecore(x: jax.Array, gate: jax.Array, up: jax.Array, down: jax.Array) -> jax.Array:
    """The block with collectives offloaded to the SparseCore (MaxText #3857); arguments as `recipe`."""
    return _block(x, gate, up, down)


def no_sparsecore(x: jax.Array, gate: jax.Array, up: jax.Array, down: jax.Array) -> jax.Array:
    """The block with no collective offloaded to the SparseCore; arguments as `recipe`."""
    return _block(x, gate, up, down)


def scheduler_alone(x: jax.Array, gate: jax.Array, up: jax.Array, down: jax.Array) -> jax.Array:
    """The block with the recipe's layer scheduler alone, which must be refused; arguments as `recipe`."""
    return _block(x, gate, up, down)


def unknown_flag(x: jax.Array, gate: jax.Array, up: jax.Array, down: jax.Array) -> jax.Array:
    """The block with a flag that no libtpu has, which must be refused; arguments as `recipe`."""
    return _block(x, gate, up, down)


def _block(x: jax.Array, gate: jax.Array, up: jax.Array, down: jax.Array) -> jax.Array:
    if gate.shape != up.shape or gate.shape != down.shape[::-1] or x.ndim != 2 or x.shape[1:] != gate.shape[:1]:
        raise ValueError(
            f"x, gate, up and down have shapes {x.shape}, {gate.shape}, {up.shape} and {down.shape}; "
            "expected (n, D), (D, F), (D, F) and (F, D)"
        )
    wide = jnp.promote_types(x.dtype, jnp.float32)
    gated = jnp.matmul(x, gate, preferred_element_type=wide)
    hidden = jax.nn.silu(gated) * jnp.matmul(x, up, preferred_element_type=wide)
    return x + jnp.matmul(hidden.astype(x.dtype), down, preferred_element_type=wide).astype(x.dtype)
