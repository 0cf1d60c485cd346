"""The operand elements that a gather reads or a scatter writes, computed from XLA's dimension numbers.

Source: XLA operation semantics, "Gather" and "Scatter"; `jax.lax.GatherDimensionNumbers`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samebits.errors import BrokenPromise
from samebits.interpret.equation import JAX, Array, Step, is_machinery

Places = tuple[NDArray[np.int64], NDArray[np.bool_]]
"""For each element of a gather's output (or a scatter's updates): its flat index in the operand, and whether it lies
inside the operand. The indices of elements outside are 0."""


def of_gather(step: Step, indices: Array) -> Places:
    """Find where the elements of a gather's output come from."""
    return _places(step, indices, step.output.shape, step.params["slice_sizes"], step.params["dimension_numbers"])


def of_scatter(step: Step, indices: Array) -> Places:
    """Find where the elements of a scatter's updates go to: whence a gather of as many windows reads."""
    from jax.lax import GatherDimensionNumbers  # here, because labels and arrays need no jax

    numbers = step.params["dimension_numbers"]
    updates = step.inputs[2].shape
    dropped = (*numbers.inserted_window_dims, *numbers.operand_batching_dims)
    lengths = iter([updates[dim] for dim in numbers.update_window_dims])
    sizes = [1 if dim in dropped else next(lengths) for dim in range(len(step.inputs[0].shape))]
    read = GatherDimensionNumbers(
        offset_dims=numbers.update_window_dims,
        collapsed_slice_dims=numbers.inserted_window_dims,
        start_index_map=numbers.scatter_dims_to_operand_dims,
        operand_batching_dims=numbers.operand_batching_dims,
        start_indices_batching_dims=numbers.scatter_indices_batching_dims,
    )
    return _places(step, indices, updates, sizes, read)


def _places(step: Step, indices: Array, shape: tuple[int, ...], sizes: Sequence[int], numbers: Any) -> Places:
    """Find every element's coordinates in the operand: the start of its window plus its offset inside.

    Args:
        shape: that of the gather's output, or of the scatter's updates.
        sizes: of a window, by dimension of the operand.
        numbers: those of a gather.
    """
    operand = step.inputs[0].shape
    at = np.indices(shape, np.int64, sparse=True) if shape else ()
    batch_dims = [dim for dim in range(len(shape)) if dim not in numbers.offset_dims]
    where = tuple(at[dim] for dim in batch_dims)  # into all dimensions of the indices but the last
    starts = [np.zeros((1,) * len(shape), np.int64)] * len(operand)
    indices = np.asarray(indices).astype(np.int64)
    for number, dim in enumerate(numbers.start_index_map):
        starts[dim] = indices[(*where, number)] if where else indices[..., number].reshape((1,) * len(shape))
    for dim, source in zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True):
        starts[dim] = where[source]
    inside: Any = np.ones((1,) * len(shape), bool)
    mode = str(step.params.get("mode", "")).upper()
    for dim in range(len(operand)):
        highest = operand[dim] - sizes[dim]
        if "CLIP" in mode:
            starts[dim] = np.clip(starts[dim], 0, highest)
        else:
            inside = inside & (starts[dim] >= 0) & (starts[dim] <= highest)
    if "PROMISE" in mode and not inside.all() and _reads_back_numbers(step):
        for dim in range(len(operand)):  # as XLA does; the updates of these numbers are dropped whatever is read
            starts[dim] = np.clip(starts[dim], 0, operand[dim] - sizes[dim])
        inside = np.ones((1,) * len(shape), bool)
    if "PROMISE" in mode and not inside.all():
        raise BrokenPromise.of(step, "an index is out of range although it is promised to be in range", step.place)
    _require_promised(step, starts, inside, operand)
    offsets = iter(numbers.offset_dims)
    flat: Any = np.zeros((1,) * len(shape), np.int64)
    for dim, length in enumerate(operand):
        has_offset = dim not in (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)
        flat = flat * length + starts[dim] + (at[next(offsets)] if has_offset else 0)
    inside = np.broadcast_to(inside, shape)
    return np.where(inside, np.broadcast_to(flat, shape), 0), inside


def _reads_back_numbers(step: Step) -> bool:
    """Whether jax's own rule for the gradient of a scatter reads back which update was written last at each place.

    It promises indices in range where the user's scatter, which drops the others, does not.
    Source: `_scatter_jvp` in jax/_src/lax/slicing.py, step (b).
    """
    frames = getattr(getattr(getattr(step.equation, "source_info", None), "traceback", None), "frames", ())
    return step.name == "gather" and any(
        frame.function_name == "_scatter_jvp" and is_machinery(frame.file_name, JAX) for frame in frames
    )


def _require_promised(step: Step, starts: list[Any], inside: Any, operand: tuple[int, ...]) -> None:
    """Reject indices that are not what the operation promises of them, since compilers may rely on it."""
    distinct = step.params.get("unique_indices") and step.name.startswith(
        "scatter"
    )  # a gather of XLA's has no such flag
    if not (distinct or step.params.get("indices_are_sorted")):
        return
    first: Any = np.zeros((), np.int64)
    for start, length in zip(starts, operand, strict=True):
        first = first * length + start
    first, kept = np.broadcast_arrays(first, inside)
    first = first[kept]
    if distinct and len(np.unique(first)) < len(first):
        raise BrokenPromise.of(step, "indices are equal although they are promised to be distinct", step.place)
    if step.params.get("indices_are_sorted") and np.any(first[1:] < first[:-1]):
        raise BrokenPromise.of(step, "indices are not in order although they are promised to be sorted", step.place)
