"""The loss and the gradient of a step, one microbatch at a time, so that only its activations are in memory.

The sums of all microbatches are divided once, by the sum of all weights: microbatches count by their weights, not each
the same. What is added up in is the choice that costs accuracy: `scan` takes at least float32, `scan_native` the
dtype of the kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec

Loss = Callable[[Any, Any, Any, Any], tuple[jax.Array, jax.Array]]
Step = dict[str, Any]


def scan(
    inputs: Any, targets: Any, weights: Any, kernel: Any, *, microbatches: int = 1, loss: Loss | None = None
) -> Step:
    """The rows' weighted mean loss plus the microbatches' mean extra; gradients added up in at least float32.

    Args:
        inputs: `[batch, features]`, floating point, finite; for a loss of your own, a pytree of `[batch, ...]`.
        targets: `[batch, outputs]`, floating point, finite; or a pytree too.
        weights: `[batch]`, floating point, finite, not negative; rows of weight 0 do not count. For a loss of your own
            also `[batch, sequence]`, or a pytree.
        kernel: `[features, outputs]`, floating point, finite; or a pytree.
        microbatches: into how many parts the batch is cut: row `i` is in part `i % microbatches`.
        loss: `loss(kernel, inputs, targets, weights) -> (weighted sum of the losses, extra)` of some rows, two scalars
            of at least float32. None is `sum((tanh(inputs @ kernel) - targets)**2)` of a row, with an extra of 0.

    Returns:
        `loss`, the weighted mean alone, and `extra`, scalars of at least float32, and `gradient`, shapes, dtypes and
        shardings of the kernel.

    Raises:
        ValueError: the microbatches do not divide the batch, or the shapes do not fit.
    """
    return _accumulated(inputs, targets, weights, kernel, microbatches, loss, native=False)


def scan_native(
    inputs: Any, targets: Any, weights: Any, kernel: Any, *, microbatches: int = 1, loss: Loss | None = None
) -> Step:
    """The rows' weighted mean loss plus the microbatches' mean extra; gradients added up in the dtype of the kernel.

    In bfloat16 every microbatch rounds the sum: half the memory of `scan`, at the price of its accuracy.

    Args:
        inputs: `[batch, features]`, floating point, finite; for a loss of your own, a pytree of `[batch, ...]`.
        targets: `[batch, outputs]`, floating point, finite; or a pytree too.
        weights: `[batch]`, floating point, finite, not negative; rows of weight 0 do not count. For a loss of your own
            also `[batch, sequence]`, or a pytree.
        kernel: `[features, outputs]`, floating point, finite; or a pytree.
        microbatches: into how many parts the batch is cut: row `i` is in part `i % microbatches`.
        loss: `loss(kernel, inputs, targets, weights) -> (weighted sum of the losses, extra)` of some rows, two scalars
            of at least float32. None is `sum((tanh(inputs @ kernel) - targets)**2)` of a row, with an extra of 0.

    Returns:
        `loss`, the weighted mean alone, and `extra`, scalars of at least float32, and `gradient`, shapes, dtypes and
        shardings of the kernel.

    Raises:
        ValueError: the microbatches do not divide the batch, or the shapes do not fit.
    """
    return _accumulated(inputs, targets, weights, kernel, microbatches, loss, native=True)


def _accumulated(
    inputs: Any, targets: Any, weights: Any, kernel: Any, microbatches: int, loss: Loss | None, *, native: bool
) -> Step:
    _check(inputs, targets, weights, microbatches, kernel if loss is None else None)

    def step(inputs: Any, targets: Any, weights: Any, kernel: Any) -> Step:
        # The gradient of the layer of its own is one of wide numbers; of another, what its loss makes it.
        used = kernel if loss else jax.tree.map(_wide, kernel)
        total = sum(jnp.sum(_wide(leaf)) for leaf in jax.tree.leaves(weights))
        divisor = jnp.where(total > 0, total, 1)

        def objective(kernel: Any, rows: Any) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
            losses, extra = (loss or _squares)(kernel, *rows)
            # One sum for both: the losses count by their weights, the extras each the same.
            return losses + extra * (divisor / microbatches), (losses, extra)

        def add(sums: Any, rows: Any) -> tuple[Any, None]:
            losses, extras, gradient = sums
            more, (more_losses, more_extras) = jax.grad(objective, has_aux=True)(used, rows)
            gradient = jax.tree.map(lambda kept, one: kept + one.astype(kept.dtype), gradient, more)
            return (losses + more_losses, extras + more_extras, gradient), None

        rows = jax.tree.map(lambda array: _parts(array, microbatches), (inputs, targets, weights))
        zeros = jax.tree.map(lambda array: jnp.zeros_like(array, array.dtype if native else _wide_dtype(array)), kernel)
        nothing = (jnp.zeros_like(total), jnp.zeros_like(total), zeros)
        (losses, extras, gradient), _ = jax.lax.scan(add, nothing, rows)
        mean = jax.tree.map(lambda kept, array: (_wide(kept) / divisor).astype(array.dtype), gradient, kernel)
        return {"loss": losses / divisor, "extra": extras / microbatches, "gradient": mean}

    if loss is not None:
        return step(inputs, targets, weights, kernel)
    # Sums over a split batch: where shardings are part of types, leave them to the compiler.
    like = {"loss": PartitionSpec(), "extra": PartitionSpec(), "gradient": jax.typeof(kernel).sharding}
    return jax.sharding.auto_axes(step, out_sharding=like)(inputs, targets, weights, kernel)


def _squares(
    kernel: jax.Array, inputs: jax.Array, targets: jax.Array, weights: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """The weighted sum of the rows' losses, and no extra."""
    outputs = jnp.tanh(jnp.matmul(_wide(inputs), kernel, precision=jax.lax.Precision.HIGHEST))
    losses = jnp.sum(jnp.square(outputs - _wide(targets)), axis=-1)
    return jnp.sum(_wide(weights) * losses), jnp.zeros((), losses.dtype)


def _wide_dtype(array: jax.Array) -> Any:
    return jnp.promote_types(array.dtype, jnp.float32)


def _wide(array: jax.Array) -> jax.Array:
    return array.astype(_wide_dtype(array))


def _parts(rows: jax.Array, microbatches: int) -> jax.Array:
    """Rows dealt out in turn: every device deals out its own, where neighbouring rows would all lie on one."""
    deal = jax.sharding.auto_axes(
        lambda rows: rows.reshape(-1, microbatches, *rows.shape[1:]).swapaxes(0, 1),
        out_sharding=PartitionSpec(None, *jax.typeof(rows).sharding.spec),
    )
    return deal(rows)


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
