"""The rotation of activations between pipeline stages, written as permutes between devices.

Source: the circular pipeline of Praxis and MaxText (`praxis/layers/pipeline.py`, `maxtext/layers/pipeline.py`), after
Xu et al., "GSPMD: General and Scalable Parallelization for ML Computation Graphs", 2021 (arXiv 2105.04663), section
3.3: every stage works on one row of a state buffer, and after each step the rows move to the next stage.
"""

from __future__ import annotations

import functools
from typing import Literal

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec

AXIS = "stage"
"""The mesh axis over which the rows are split."""

OPERATIONS = ("rotate_right", "rotate_left", "shift_right", "shift_left", "state_io_update")


def ppermute(
    state: jax.Array,
    output: jax.Array | None = None,
    *,
    operation: Literal["rotate_right", "rotate_left", "shift_right", "shift_left", "state_io_update"],
) -> jax.Array:
    """Move every row of a pipeline's state to the stage before or after it.

    Equivalent to, in NumPy:

    - `rotate_right`: `np.roll(state, 1, axis=0)`, the last stage feeds the first;
    - `rotate_left`: `np.roll(state, -1, axis=0)`;
    - `shift_right`: `rotate_right`, then `state[0] = 0`, the first stage gets nothing;
    - `shift_left`: `rotate_left`, then `state[-1] = 0`;
    - `state_io_update`: `rotate_left`, then `state[-1] = output[-1]`: the inputs still waiting move towards the first
      stage, and what the last stage has just finished takes the place that became free.

    A device sends its boundary row only, so it can hold any number of rows.

    Args:
        state: `[stages, ...]`, such as `[stages, microbatch, sequence, embed]`; its rows split over the axis `stage`.
        output: shape and dtype of `state`, for `state_io_update` only; the rows before the last are not read.
        operation: which move.

    Returns:
        The shape and dtype of `state`, its rows split over `stage`.

    Raises:
        ValueError: the operation is unknown, `output` does not go with it, or the rows do not divide by `stage`.
    """
    if operation not in OPERATIONS:
        raise ValueError(f"operation is '{operation}'; expected one of {', '.join(OPERATIONS)}")
    if (output is not None) != (operation == "state_io_update"):
        raise ValueError(f"{operation} {'without' if output is None else 'with'} output; only state_io_update has one")
    if output is not None and (output.shape, output.dtype) != (state.shape, state.dtype):
        raise ValueError(
            f"output is {output.dtype}{list(output.shape)}; expected {state.dtype}{list(state.shape)}, as state is"
        )
    stages = jax.sharding.get_abstract_mesh().shape.get(AXIS, 1)
    if state.ndim == 0 or state.shape[0] % stages:
        raise ValueError(
            f"state has shape {list(state.shape)}; expected rows that divide by {stages}, the size of {AXIS}"
        )
    on_stage = functools.partial(_on_stage, stages, operation)
    if stages > 1:
        rows = PartitionSpec(AXIS)
        on_stage = jax.shard_map(on_stage, in_specs=rows, out_specs=rows, axis_names={AXIS})
    return on_stage(state) if output is None else on_stage(state, output)


def _on_stage(stages: int, operation: str, rows: jax.Array, output: jax.Array | None = None) -> jax.Array:
    """What one device does with the rows it holds."""
    to_next = operation.endswith("right")
    # Splits, and no slices: the transpose of a split is a concatenation, so that the gradient only moves rows too.
    if to_next:
        rest, edge = lax.split(rows, (rows.shape[0] - 1, 1))
    else:
        edge, rest = lax.split(rows, (1, rows.shape[0] - 1))
    received = _send(edge, stages, to_next=to_next, wrap=operation.startswith("rotate"))
    if output is not None:
        last = lax.axis_index(AXIS) == stages - 1 if stages > 1 else True
        received = jnp.where(last, output[-1:], received)
    return jnp.concatenate([received, rest] if to_next else [rest, received])


def _send(row: jax.Array, stages: int, *, to_next: bool, wrap: bool) -> jax.Array:
    """The row that the neighbour sent; zeros on the device that has no such neighbour."""
    if stages == 1:
        return row if wrap else jnp.zeros_like(row)
    step = 1 if to_next else -1
    hops = [(stage, (stage + step) % stages) for stage in range(stages) if wrap or 0 <= stage + step < stages]
    return lax.ppermute(row, AXIS, hops)
