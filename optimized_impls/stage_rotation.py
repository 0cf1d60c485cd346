"""The rotation of activations between pipeline stages, written on the global array as concatenated slices.

No message is spelled out; where the rows are split over devices, the compiler makes the sends.
"""

from __future__ import annotations

from typing import Literal

import jax
import jax.numpy as jnp
from jax import lax

OPERATIONS = ("rotate_right", "rotate_left", "shift_right", "shift_left", "state_io_update")


def slice_concatenate(
    state: jax.Array,
    output: jax.Array | None = None,
    *,
    operation: Literal["rotate_right", "rotate_left", "shift_right", "shift_left", "state_io_update"],
) -> jax.Array:
    """Move every row of a pipeline's state to the stage before or after it.

    Equivalent to, in NumPy:

    - `rotate_right`: `np.concatenate([state[-1:], state[:-1]])`;
    - `rotate_left`: `np.concatenate([state[1:], state[:1]])`;
    - `shift_right`: `np.concatenate([zeros, state[:-1]])`;
    - `shift_left`: `np.concatenate([state[1:], zeros])`;
    - `state_io_update`: `np.where(row == rows - 1, output, shift_left)`.

    Args:
        state: `[stages, ...]`, such as `[stages, microbatch, sequence, embed]`; its rows split over the axis `stage`.
        output: shape and dtype of `state`, for `state_io_update` only; the rows before the last are not read.
        operation: which move.

    Returns:
        The shape and dtype of `state`; its sharding where that is part of the type, else what the compiler chooses.

    Raises:
        ValueError: the operation is unknown, `output` does not go with it, or the rows do not divide by `stage`.

    Source: MaxText, pull request 3922, item 10 (slices and pads in place of the `ppermute` of pull request 2744).
    """
    _check(state, output, operation)
    # Slices of a split dimension have no sharding rule: where the sharding is part of the type, leave them to the
    # compiler.
    move = jax.sharding.auto_axes(_move, out_sharding=jax.typeof(state).sharding)
    return move(state, output, operation=operation)


def _move(state: jax.Array, output: jax.Array | None, *, operation: str) -> jax.Array:
    rows = state.shape[0]
    if operation.endswith("right"):
        kept = lax.slice_in_dim(state, 0, rows - 1)
        if operation == "shift_right":
            return _pad(kept, before=1, after=0)
        return jnp.concatenate([lax.slice_in_dim(state, rows - 1, rows), kept])
    kept = lax.slice_in_dim(state, 1, rows)
    if operation == "rotate_left":
        return jnp.concatenate([kept, lax.slice_in_dim(state, 0, 1)])
    shifted = _pad(kept, before=0, after=1)
    if output is None:
        return shifted
    # The new row is already where it belongs, so it is selected. Slicing it off `output` would have the compiler
    # spread it by a sum over devices, which loses the sign of -0.0 and subnormals on the CPU.
    is_last = jnp.arange(rows) == rows - 1
    return jnp.where(is_last.reshape(rows, *(1,) * (state.ndim - 1)), output, shifted)


def _pad(rows: jax.Array, *, before: int, after: int) -> jax.Array:
    """Rows of zeros before and after."""
    return lax.pad(rows, jnp.zeros((), rows.dtype), ((before, after, 0), *((0, 0, 0),) * (rows.ndim - 1)))


def _check(state: jax.Array, output: jax.Array | None, operation: str) -> None:
    """Check the arguments."""
    if operation not in OPERATIONS:
        raise ValueError(f"operation is '{operation}'; expected one of {', '.join(OPERATIONS)}")
    if (output is not None) != (operation == "state_io_update"):
        raise ValueError(f"{operation} {'without' if output is None else 'with'} output; only state_io_update has one")
    if output is not None and (output.shape, output.dtype) != (state.shape, state.dtype):
        raise ValueError(
            f"output is {output.dtype}{list(output.shape)}; expected {state.dtype}{list(state.shape)}, as state is"
        )
    stages = jax.sharding.get_abstract_mesh().shape.get("stage", 1)
    if state.ndim == 0 or state.shape[0] % stages:
        raise ValueError(
            f"state has shape {list(state.shape)}; expected rows that divide by {stages}, the size of stage"
        )
