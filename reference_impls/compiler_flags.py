"""A gated MLP whose weights are split over `fsdp` and `tensor`, as a training step has it: what compiler flags act on.

Source: MaxText's recipes for TPU v7x (pull requests #3857 and #4170) set `LIBTPU_FLAGS` around a step whose collectives
are the all-gathers of FSDP weights, the reduce-scatters of their gradients and the all-reduces of tensor parallelism.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp


def no_flags(x: jax.Array, gate: jax.Array, up: jax.Array, down: jax.Array) -> jax.Array:
    """A residual block, `x + (silu(x @ gate) * (x @ up)) @ down`, compiled as the compiler likes best.

    Args:
        x: `[n, D]`, floating point.
        gate, up: `[D, F]` in the dtype of `x`.
        down: `[F, D]` in the dtype of `x`.

    Returns:
        `[n, D]` in the dtype of `x`; products are summed in at least float32.

    Raises:
        ValueError: the shapes do not fit.
    """
    if gate.shape != up.shape or gate.shape != down.shape[::-1] or x.ndim != 2 or x.shape[1:] != gate.shape[:1]:
        raise ValueError(
            f"x, gate, up and down have shapes {x.shape}, {gate.shape}, {up.shape} and {down.shape}; "
            "expected (n, D), (D, F), (D, F) and (F, D)"
        )
    wide = jnp.promote_types(x.dtype, jnp.float32)
    gated = jnp.matmul(x, gate, preferred_element_type=wide)
    hidden = jax.nn.silu(gated) * jnp.matmul(x, up, preferred_element_type=wide)
    return x + jnp.matmul(hidden.astype(x.dtype), down, preferred_element_type=wide).astype(x.dtype)
