"""The loss and the gradient of a step, written as one batch: a sum over all rows, divided by the sum of their weights.

The layer is the smallest that has both a nonlinearity and a parameter: what is compared is how rows are added up. The
definition is that of a weighted mean; rows stand for tokens.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec


def whole_batch(
    inputs: jax.Array, targets: jax.Array, weights: jax.Array, kernel: jax.Array, *, microbatches: int = 1
) -> dict[str, jax.Array]:
    """The weighted mean of the rows' losses, and its gradient with respect to the kernel.

    Equivalent to `jax.value_and_grad` of `sum(weights * loss) / sum(weights)` with the loss of a row
    `sum((tanh(inputs @ kernel) - targets)**2)`, all in at least float32, the gradient rounded once. Both are 0 where
    all weights are. It is not the mean of the microbatches' means, unless their weights have the same sum.

    Args:
        inputs: `[batch, features]`, floating point, finite.
        targets: `[batch, outputs]`, floating point, finite.
        weights: `[batch]`, floating point, finite, not negative; rows of weight 0 do not count.
        kernel: `[features, outputs]`, floating point, finite.
        microbatches: into how many parts the batch is cut; not used here, one signature serves all forms.

    Returns:
        `loss`, a scalar of at least float32, and `gradient`, shape, dtype and sharding of the kernel.

    Raises:
        ValueError: the microbatches do not divide the batch, or the shapes do not fit.
    """
    if inputs.ndim != 2 or weights.shape != inputs.shape[:1] or targets.shape != (inputs.shape[0], kernel.shape[-1]):
        raise ValueError(
            f"inputs, targets and weights have shapes {inputs.shape}, {targets.shape} and {weights.shape}; expected "
            "[batch, features], [batch, outputs], [batch]"
        )
    if microbatches < 1 or inputs.shape[0] % microbatches:
        raise ValueError(f"microbatches is {microbatches}; expected a divisor of the batch's {inputs.shape[0]} rows")

    def step(inputs: jax.Array, targets: jax.Array, weights: jax.Array, kernel: jax.Array) -> dict[str, jax.Array]:
        wide = jnp.promote_types(kernel.dtype, jnp.float32)

        def mean(kernel: jax.Array) -> jax.Array:
            outputs = jnp.tanh(jnp.matmul(inputs.astype(wide), kernel, precision=jax.lax.Precision.HIGHEST))
            losses = jnp.sum(jnp.square(outputs - targets.astype(wide)), axis=-1)
            total = jnp.sum(weights.astype(wide))
            return jnp.sum(weights.astype(wide) * losses) / jnp.where(total > 0, total, 1)

        loss, gradient = jax.value_and_grad(mean)(kernel.astype(wide))
        return {"loss": loss, "gradient": gradient.astype(kernel.dtype)}

    # Sums over a split batch: where shardings are part of types, leave them to the compiler.
    like = {"loss": PartitionSpec(), "gradient": jax.typeof(kernel).sharding}
    return jax.sharding.auto_axes(step, out_sharding=like)(inputs, targets, weights, kernel)
