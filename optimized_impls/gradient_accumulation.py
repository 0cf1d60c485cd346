"""The loss and the gradient of a step, microbatch after microbatch: the activations of one at a time are held.

The sums of all microbatches are divided once, by the sum of all weights: microbatches count by their weights, not each
the same. What is added up in is the choice that costs accuracy: `scan` takes at least float32, `scan_native` the
dtype of the kernel.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec

Step = dict[str, jax.Array]


def scan(
    inputs: jax.Array, targets: jax.Array, weights: jax.Array, kernel: jax.Array, *, microbatches: int = 1
) -> Step:
    """The weighted mean of the rows' losses and its gradient, added up in at least float32 and rounded once.

    Args:
        inputs: `[batch, features]`, floating point, finite.
        targets: `[batch, outputs]`, floating point, finite.
        weights: `[batch]`, floating point, finite, not negative; rows of weight 0 do not count.
        kernel: `[features, outputs]`, floating point, finite.
        microbatches: into how many parts the batch is cut: row `i` is in part `i % microbatches`.

    Returns:
        `loss`, a scalar of at least float32, and `gradient`, shape, dtype and sharding of the kernel.

    Raises:
        ValueError: the microbatches do not divide the batch, or the shapes do not fit.
    """
    return _accumulated(inputs, targets, weights, kernel, microbatches, native=False)


def scan_native(
    inputs: jax.Array, targets: jax.Array, weights: jax.Array, kernel: jax.Array, *, microbatches: int = 1
) -> Step:
    """The weighted mean of the rows' losses and its gradient, the gradients added up in the dtype of the kernel.

    In bfloat16 every microbatch rounds the sum: half the memory of `scan`, at the price of its accuracy.

    Args:
        inputs: `[batch, features]`, floating point, finite.
        targets: `[batch, outputs]`, floating point, finite.
        weights: `[batch]`, floating point, finite, not negative; rows of weight 0 do not count.
        kernel: `[features, outputs]`, floating point, finite.
        microbatches: into how many parts the batch is cut: row `i` is in part `i % microbatches`.

    Returns:
        `loss`, a scalar of at least float32, and `gradient`, shape, dtype and sharding of the kernel.

    Raises:
        ValueError: the microbatches do not divide the batch, or the shapes do not fit.
    """
    return _accumulated(inputs, targets, weights, kernel, microbatches, native=True)


def _accumulated(
    inputs: jax.Array, targets: jax.Array, weights: jax.Array, kernel: jax.Array, microbatches: int, *, native: bool
) -> Step:
    if inputs.ndim != 2 or weights.shape != inputs.shape[:1] or targets.shape != (inputs.shape[0], kernel.shape[-1]):
        raise ValueError(
            f"inputs, targets and weights have shapes {inputs.shape}, {targets.shape} and {weights.shape}; expected "
            "[batch, features], [batch, outputs], [batch]"
        )
    if microbatches < 1 or inputs.shape[0] % microbatches:
        raise ValueError(f"microbatches is {microbatches}; expected a divisor of the batch's {inputs.shape[0]} rows")

    def step(inputs: jax.Array, targets: jax.Array, weights: jax.Array, kernel: jax.Array) -> Step:
        wide = jnp.promote_types(kernel.dtype, jnp.float32)
        kept = kernel.dtype if native else wide

        def add(sums: Any, rows: Any) -> tuple[Any, None]:
            loss, gradient, total = sums
            more_loss, more_gradient = jax.value_and_grad(_loss_sum)(kernel.astype(wide), *rows)
            return (loss + more_loss, gradient + more_gradient.astype(kept), total + jnp.sum(rows[2])), None

        rows = tuple(_parts(array.astype(wide), microbatches) for array in (inputs, targets, weights))
        nothing = (jnp.zeros((), wide), jnp.zeros(kernel.shape, kept), jnp.zeros((), wide))
        (loss, gradient, total), _ = jax.lax.scan(add, nothing, rows)
        divisor = jnp.where(total > 0, total, 1)
        return {"loss": loss / divisor, "gradient": (gradient.astype(wide) / divisor).astype(kernel.dtype)}

    like = {"loss": PartitionSpec(), "gradient": jax.typeof(kernel).sharding}
    return jax.sharding.auto_axes(step, out_sharding=like)(inputs, targets, weights, kernel)


def _loss_sum(kernel: jax.Array, inputs: jax.Array, targets: jax.Array, weights: jax.Array) -> jax.Array:
    """The weighted sum of the losses of some rows."""
    outputs = jnp.tanh(jnp.matmul(inputs, kernel, precision=jax.lax.Precision.HIGHEST))
    return jnp.sum(weights * jnp.sum(jnp.square(outputs - targets), axis=-1))


def _parts(rows: jax.Array, microbatches: int) -> jax.Array:
    """Rows dealt out in turn: every device deals out its own, where neighbouring rows would all lie on one."""
    return rows.reshape(-1, microbatches, *rows.shape[1:]).swapaxes(0, 1)
