"""The microbatch of each pipeline stage in an iteration, written as one indexed gather per stage.

Source: the schedule of Huang et al., "GPipe: Efficient Training of Giant Neural Networks using Pipeline Parallelism",
2018 (arXiv 1811.06965), section 2.3: stage `s` has microbatch `m` one iteration after stage `s - 1` has it.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec

AXIS = "stage"
"""The mesh axis over which the stages are split."""


def vmap_index(inputs: jax.Array, iteration: jax.Array, *, stages: int, delay: int = 1) -> jax.Array:
    """The microbatch of every stage, such as its positions or segment ids.

    Equivalent to `[inputs[max(iteration - delay * stage, 0) % microbatches] for stage in range(stages)]`: a stage that
    has not begun gets microbatch 0, one that is through with the last begins again with the first, in the next repeat
    or while the pipeline drains. An iteration below 0 counts as 0.

    Args:
        inputs: `[microbatches, ...]`, any dtype; its first dimension is not split.
        iteration: a scalar of an integer dtype, in the range of int32; on the device, as the counter of a loop.
        stages: how many there are; on a mesh, a multiple of the size of the axis `stage`.
        delay: iterations between a stage and the next, at least 1.

    Returns:
        `[stages, ...]`, the dtype of the inputs; its rows split over `stage`, the rest as the inputs are.

    Raises:
        ValueError: there is no stage, the delay is below 1, the inputs have no microbatch, or the iteration is not one
            integer.
    """
    if stages < 1 or delay < 1:
        raise ValueError(f"stages is {stages} and delay is {delay}; expected at least 1")
    if inputs.ndim == 0 or inputs.shape[0] == 0:
        raise ValueError(f"inputs have shape {inputs.shape}; expected [microbatches, ...] with a microbatch")
    if iteration.ndim or not jnp.issubdtype(iteration.dtype, jnp.integer):
        raise ValueError(f"iteration is {iteration.dtype}{list(iteration.shape)}; expected one integer")

    def select(inputs: jax.Array, iteration: jax.Array) -> jax.Array:
        now = jnp.maximum(iteration.astype(jnp.int32), 0)  # Before the difference, which could overflow.
        begun = jnp.maximum(now - delay * jnp.arange(stages, dtype=jnp.int32), 0)
        look_up = functools.partial(lax.dynamic_index_in_dim, inputs, keepdims=False)
        found = jax.vmap(look_up)(begun % inputs.shape[0])
        if rows is None:
            return found
        rest = (PartitionSpec.UNCONSTRAINED,) * (found.ndim - 1)
        return lax.with_sharding_constraint(found, PartitionSpec(rows, *rest))

    rows = AXIS if AXIS in jax.sharding.get_abstract_mesh().shape else None
    spec = PartitionSpec(rows, *jax.typeof(inputs).sharding.spec[1:])
    # Another index on every stage has no sharding rule: where shardings are part of types, leave it to the compiler.
    return jax.sharding.auto_axes(select, out_sharding=spec)(inputs, iteration)
