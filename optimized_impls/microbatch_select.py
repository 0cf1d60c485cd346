"""The microbatch of each pipeline stage in an iteration, without one gather per stage.

The microbatches of neighbouring stages are neighbours: `window` cuts them out as one slice that moves with the
iteration. `one_hot` asks of every microbatch whether a stage wants it, which needs no index at all.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec

AXIS = "stage"
"""The mesh axis over which the stages are split."""


def window(inputs: jax.Array, iteration: jax.Array, *, stages: int, delay: int = 1) -> jax.Array:
    """The microbatches of all stages as one slice of the microbatches in falling order.

    Stages that have not begun are overwritten with microbatch 0 by a selection.

    Args:
        inputs: `[microbatches, ...]`, any dtype; its first dimension is not split.
        iteration: a scalar of an integer dtype, in the range of int32; on the device, as the counter of a loop. Below 0
            it counts as 0.
        stages: how many there are; on a mesh, a multiple of the size of the axis `stage`.
        delay: iterations between a stage and the next, at least 1.

    Returns:
        `[stages, ...]`, the dtype of the inputs; its rows split over `stage`, the rest as the inputs are.

    Raises:
        ValueError: there is no stage, the delay is below 1, the inputs have no microbatch, or the iteration is not one
            integer.

    Source: MaxText pull request 3922, item 10 (a slice in place of gathers).
    """
    return _placed(_window, inputs, iteration, stages, delay)


def one_hot(inputs: jax.Array, iteration: jax.Array, *, stages: int, delay: int = 1) -> jax.Array:
    """The microbatch of every stage by selections, one per microbatch: no index, no product, no sum.

    Args:
        inputs: `[microbatches, ...]`, any dtype; its first dimension is not split.
        iteration: a scalar of an integer dtype, in the range of int32; on the device, as the counter of a loop. Below 0
            it counts as 0.
        stages: how many there are; on a mesh, a multiple of the size of the axis `stage`.
        delay: iterations between a stage and the next, at least 1.

    Returns:
        `[stages, ...]`, the dtype of the inputs; its rows split over `stage`, the rest as the inputs are.

    Raises:
        ValueError: there is no stage, the delay is below 1, the inputs have no microbatch, or the iteration is not one
            integer.
    """
    return _placed(_one_hot, inputs, iteration, stages, delay)


def _window(inputs: jax.Array, iteration: jax.Array, stages: int, delay: int) -> jax.Array:
    microbatches = inputs.shape[0]
    length = delay * (stages - 1) + 1
    # Row i of the falling order is microbatch -1 - i, so the slice from -1 - t on has t, t - 1, ... round the end.
    turns = -(-(microbatches + length) // microbatches)
    falling = jnp.tile(lax.rev(inputs, (0,)), (turns, *(1,) * (inputs.ndim - 1)))
    taken = lax.dynamic_slice_in_dim(falling, (-1 - iteration) % microbatches, length)[::delay]
    stage = lax.broadcasted_iota(jnp.int32, (stages, *(1,) * (inputs.ndim - 1)), 0)
    return jnp.where(iteration < delay * stage, inputs[:1], taken)


def _one_hot(inputs: jax.Array, iteration: jax.Array, stages: int, delay: int) -> jax.Array:
    microbatches = inputs.shape[0]
    stage = lax.broadcasted_iota(jnp.int32, (stages, *(1,) * (inputs.ndim - 1)), 0)
    wanted = jnp.maximum(iteration - delay * stage, 0) % microbatches
    found = jnp.broadcast_to(inputs[0], (stages, *inputs.shape[1:]))
    for microbatch in range(1, microbatches):
        found = jnp.where(wanted == microbatch, inputs[microbatch], found)
    return found


def _placed(
    select: Callable[[jax.Array, jax.Array, int, int], jax.Array],
    inputs: jax.Array,
    iteration: jax.Array,
    stages: int,
    delay: int,
) -> jax.Array:
    """The selection after the checks, left to the compiler where shardings are part of types."""
    if stages < 1 or delay < 1:
        raise ValueError(f"stages is {stages} and delay is {delay}; expected at least 1")
    if inputs.ndim == 0 or inputs.shape[0] == 0:
        raise ValueError(f"inputs have shape {inputs.shape}; expected [microbatches, ...] with a microbatch")
    if iteration.ndim or not jnp.issubdtype(iteration.dtype, jnp.integer):
        raise ValueError(f"iteration is {iteration.dtype}{list(iteration.shape)}; expected one integer")

    def on_device(inputs: jax.Array, iteration: jax.Array) -> jax.Array:
        found = select(inputs, jnp.maximum(iteration.astype(jnp.int32), 0), stages, delay)
        if rows is None:
            return found
        rest = (PartitionSpec.UNCONSTRAINED,) * (found.ndim - 1)
        return lax.with_sharding_constraint(found, PartitionSpec(rows, *rest))

    rows = AXIS if AXIS in jax.sharding.get_abstract_mesh().shape else None
    spec = PartitionSpec(rows, *jax.typeof(inputs).sharding.spec[1:])
    return jax.sharding.auto_axes(on_device, out_sharding=spec)(inputs, iteration)
