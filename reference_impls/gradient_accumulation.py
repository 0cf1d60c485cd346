"""The loss and the gradient of a step, written as one batch: a sum over all rows, divided by the sum of their weights.

The layer of its own is the smallest that has both a nonlinearity and a parameter: what is compared is how rows are
added up. The definition is that of a weighted mean; rows stand for tokens. An auxiliary loss, such as that which
balances experts, is one of a microbatch: of Fedus et al., "Switch Transformers", 2021 (arXiv 2101.03961), section 2.2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec

Loss = Callable[[Any, Any, Any, Any], tuple[jax.Array, jax.Array]]


def whole_batch(
    inputs: Any, targets: Any, weights: Any, kernel: Any, *, microbatches: int = 1, loss: Loss | None = None
) -> dict[str, Any]:
    """The weighted mean of the rows' losses plus the mean of the microbatches' extras, and the gradient of this sum.

    Equivalent to `jax.value_and_grad` of `sum(weights * losses) / sum(weights) + mean(extras)`, in at least float32,
    the gradient rounded once. The first summand is 0 where all weights are. It is not the mean of the
    microbatches' means, unless their weights have the same sum; the second does not grow with their number.

    Args:
        inputs: `[batch, features]`, floating point, finite; for a loss of your own, a pytree of `[batch, ...]`.
        targets: `[batch, outputs]`, floating point, finite; or a pytree too.
        weights: `[batch]`, floating point, finite, not negative; rows of weight 0 do not count. For a loss of your own
            also `[batch, sequence]`, or a pytree.
        kernel: `[features, outputs]`, floating point, finite; or a pytree.
        microbatches: into how many parts the batch is cut for the extras: row `i` is in part `i % microbatches`.
        loss: `loss(kernel, inputs, targets, weights) -> (weighted sum of the losses, extra)` of some rows, two scalars
            of at least float32. None is `sum((tanh(inputs @ kernel) - targets)**2)` of a row, with an extra of 0.

    Returns:
        `loss`, the weighted mean alone, and `extra`, scalars of at least float32, and `gradient`, shapes, dtypes and
        shardings of the kernel.

    Raises:
        ValueError: the microbatches do not divide the batch, or the shapes do not fit.
    """
    _check(inputs, targets, weights, microbatches, kernel if loss is None else None)
    one = squares if loss is None else loss

    def step(inputs: Any, targets: Any, weights: Any, kernel: Any) -> dict[str, Any]:
        total = sum(jnp.sum(_wide(leaf)) for leaf in jax.tree.leaves(weights))

        def objective(kernel: Any) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
            losses, extra = one(kernel, inputs, targets, weights)
            if loss is not None and microbatches > 1:
                parts = [_part((inputs, targets, weights), part, microbatches) for part in range(microbatches)]
                extra = jnp.stack([loss(kernel, *part)[1] for part in parts]).mean()
            mean = losses / jnp.where(total > 0, total, 1)
            return mean + extra, (mean, extra)

        # The gradient of the layer of its own is one of wide numbers; of another, what its loss makes it.
        wide = jax.tree.map(_wide, kernel) if loss is None else kernel
        gradient, (mean, extra) = jax.grad(objective, has_aux=True)(wide)
        narrow = jax.tree.map(lambda found, like: found.astype(like.dtype), gradient, kernel)
        return {"loss": mean, "extra": extra, "gradient": narrow}

    if loss is not None:
        return step(inputs, targets, weights, kernel)
    # Sums over a split batch: where shardings are part of types, leave them to the compiler.
    like = {"loss": PartitionSpec(), "extra": PartitionSpec(), "gradient": jax.typeof(kernel).sharding}
    return jax.sharding.auto_axes(step, out_sharding=like)(inputs, targets, weights, kernel)


def squares(
    kernel: jax.Array, inputs: jax.Array, targets: jax.Array, weights: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """The weighted sum of the rows' losses, and no extra."""
    outputs = jnp.tanh(jnp.matmul(_wide(inputs), kernel, precision=jax.lax.Precision.HIGHEST))
    losses = jnp.sum(jnp.square(outputs - _wide(targets)), axis=-1)
    return jnp.sum(_wide(weights) * losses), jnp.zeros((), losses.dtype)


def _wide(array: jax.Array) -> jax.Array:
    return array.astype(jnp.promote_types(array.dtype, jnp.float32))


def _part(tree: Any, part: int, microbatches: int) -> Any:
    """The rows of one microbatch."""

    def rows(array: jax.Array) -> jax.Array:
        cut = jax.sharding.auto_axes(lambda array: array[part::microbatches], out_sharding=jax.typeof(array).sharding)
        return cut(array)

    return jax.tree.map(rows, tree)


def _check(inputs: Any, targets: Any, weights: Any, microbatches: int, kernel: Any) -> None:
    """Check the arguments; the kernel is given where all are single arrays."""
    if kernel is not None and (
        inputs.ndim != 2 or weights.shape != inputs.shape[:1] or targets.shape != (inputs.shape[0], kernel.shape[-1])
    ):
        raise ValueError(
            f"inputs, targets and weights have shapes {inputs.shape}, {targets.shape} and {weights.shape}; expected "
            "[batch, features], [batch, outputs], [batch]"
        )
    shapes = [leaf.shape for leaf in jax.tree.leaves((inputs, targets, weights))]
    if len({shape[:1] for shape in shapes}) != 1 or not shapes[0]:
        raise ValueError(
            f"inputs, targets and weights have leaves of shapes {shapes}; expected [batch, ...] of one batch"
        )
    if microbatches < 1 or shapes[0][0] % microbatches:
        raise ValueError(f"microbatches is {microbatches}; expected a divisor of the batch's {shapes[0][0]} rows")
