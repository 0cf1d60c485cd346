"""Primitives that move elements and change none: for each, how the output is put together from arrays.

A rule gets an array of anything per operand, and returns the same elements in the places of the output. Whatever a
domain holds per element moves alike, array by array, so each primitive is written once for all domains. Arrays may have
one more leading dimension, of several numbers per element: rules count dimensions from the last one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from samebits.errors import NotCovered
from samebits.interpret import windows
from samebits.interpret.equation import Array, Step

Index = NDArray[np.int64]
Rule = Callable[[Step, list[Array], list[Array]], Array | list[Array]]


class Move(Protocol):
    """What puts the elements of arrays into the places of one array."""

    def __call__(self, arrays: Sequence[Array], several: tuple[int, ...] = ()) -> Array:
        """Move elements, each of which is several numbers where arrays have a leading dimension of this size."""


STILL = frozenset(
    {
        "copy",
        "copy_p",
        "device_put",
        "layout_constraint",
        "mesh_cast",
        "multiple_of",
        "name",
        "optimization_barrier",
        "pcast",
        "pvary",
        "reshard",
        "sharding_constraint",
        "stop_gradient",
    }
)
"""Primitives that return their operands unchanged: they only concern placement and derivatives."""


@dataclass(frozen=True, slots=True)
class MoveRule:
    """How a primitive moves elements.

    Args:
        rule: from the arrays that are moved, and the index operands, to the outputs.
        index_operand_numbers: the numbers of the index operands, which are not moved themselves.
        fill: the constant that is moved as a last operand.
        prepared: what is computed once of the index operands, and given to the rule in their place.
    """

    rule: Rule
    index_operand_numbers: Callable[[Step], Sequence[int]] = lambda step: ()
    fill: Callable[[Step], Array] | None = None
    prepared: Callable[[Step, list[Array]], Sequence[Array]] = lambda step, indices: indices

    def index_operands(self, step: Step) -> tuple[int, ...]:
        """The numbers of the index operands of an equation."""
        return tuple(self.index_operand_numbers(step))

    def moves(self, step: Step, indices: list[Array]) -> Sequence[Move]:
        """For each output, what moves the operands there."""
        shapes = [kind.shape for number, kind in enumerate(step.inputs) if number not in self.index_operands(step)]
        if self.fill is not None:
            shapes.append(())
        prepared = list(self.prepared(step, indices))

        def move(number: int, arrays: Sequence[Array], several: tuple[int, ...] = ()) -> Array:
            operands = [array.reshape((*several, *shape)) for array, shape in zip(arrays, shapes, strict=True)]
            outputs = self.rule(step, operands, prepared)
            return outputs[number] if isinstance(outputs, list) else outputs

        return [functools.partial(move, number) for number in range(len(step.outputs))]


def by_index(index: Index) -> Move:
    """Return what takes elements of the concatenation of flattened arrays."""
    return lambda arrays, several=(): np.take(flattened(arrays, several), index, -1)


def flattened(arrays: Sequence[Array], several: tuple[int, ...] = ()) -> Array:
    """Return the concatenation of flattened arrays, whose elements may be several numbers."""
    flat = [array.reshape((*several, -1)) for array in arrays]
    return flat[0] if len(flat) == 1 else np.concatenate(flat, -1)


def broadcast(array: Array, shape: Sequence[int], several: tuple[int, ...] = ()) -> Array:
    """Broadcast an array, whose elements may be several numbers, to a shape."""
    own = array.shape[len(several) :]
    return np.broadcast_to(array.reshape((*several, *(1,) * (len(shape) - len(own)), *own)), (*several, *shape))


def owned(array: Array) -> Array:
    """Return an array that keeps no larger one in memory."""
    array = np.asarray(array)
    base = array.base
    return array if base is None or (isinstance(base, np.ndarray) and base.nbytes <= array.nbytes) else array.copy()


def _one(change: Callable[[Step, Array], Array]) -> MoveRule:
    """A move of one operand by its parameters alone."""
    return MoveRule(lambda step, arrays, indices: change(step, arrays[0]))


def _window(array: Array, slices: Iterable[slice]) -> Array:
    """Return a window of the last dimensions."""
    index: Any = (..., *slices)
    window: Array = array[index]
    return window


def _with(several: Array, shape: Sequence[int], own: int) -> tuple[int, ...]:
    """Return a shape, after the leading dimension that an array has beside its own dimensions."""
    return (*several.shape[: several.ndim - own], *shape)


def _broadcast_in_dim(step: Step, arrays: Array) -> Array:
    rank = len(step.inputs[0].shape)
    shape = [1] * len(step.params["shape"])
    for own, dimension in enumerate(step.params["broadcast_dimensions"]):
        shape[dimension] = step.inputs[0].shape[own]
    return np.broadcast_to(arrays.reshape(_with(arrays, shape, rank)), _with(arrays, step.params["shape"], rank))


def _filled(step: Step, arrays: list[Array], indices: list[Array]) -> Array:
    return broadcast(arrays[0], step.output.shape, arrays[0].shape)


def _as_output(step: Step, arrays: Array) -> Array:
    return arrays.reshape(_with(arrays, step.output.shape, len(step.inputs[0].shape)))


def _reshape(step: Step, arrays: Array) -> Array:
    order = step.params["dimensions"]  # some gradients transpose on the way
    return _as_output(step, arrays if order is None else _transposed(arrays, order))


def _transposed(arrays: Array, order: Sequence[int]) -> Array:
    first = arrays.ndim - len(order)
    return arrays.transpose([*range(first), *(first + axis for axis in order)])


def _slice(step: Step, arrays: Array) -> Array:
    params = step.params
    strides = params["strides"] or (1,) * len(params["start_indices"])
    bounds = zip(params["start_indices"], params["limit_indices"], strides, strict=True)
    return _window(arrays, (slice(*bound) for bound in bounds))


def _rev(step: Step, arrays: Array) -> Array:
    rank = len(step.output.shape)
    turned: Array = np.flip(arrays, tuple(axis - rank for axis in step.params["dimensions"]))
    return turned


def _split(step: Step, arrays: list[Array], indices: list[Array]) -> list[Array]:
    return np.split(arrays[0], np.cumsum(step.params["sizes"])[:-1], step.params["axis"] - len(step.inputs[0].shape))


def padded(operand: Array, value: Any, config: Sequence[tuple[int, int, int]]) -> Array:
    """Pad an array as `jax.lax.pad` does: by axis how much before it, behind it, and between its elements."""
    if not any(map(any, config)):
        return operand
    first, lengths = operand.ndim - len(config), operand.shape[operand.ndim - len(config) :]
    spaced = [
        max(length + max(length - 1, 0) * between, 0) for length, (_, _, between) in zip(lengths, config, strict=True)
    ]
    sizes = [max(low, 0) + size + max(high, 0) for size, (low, high, _) in zip(spaced, config, strict=True)]
    value = np.asarray(value).reshape((*np.shape(value), *(1,) * len(config)))
    whole = np.broadcast_to(value, (*operand.shape[:first], *sizes)).copy()
    places = zip(spaced, config, strict=True)
    _window(whole, (slice(max(low, 0), max(low, 0) + size, gap + 1) for size, (low, _, gap) in places))[...] = operand
    kept = zip(sizes, config, strict=True)
    return _window(whole, (slice(max(-low, 0), size - max(-high, 0)) for size, (low, high, _) in kept))


def _choice(step: Step, indices: list[Array]) -> list[Array]:
    """Return the number of the case of each element.

    Raises:
        NotCovered: there is no such case.
    """
    which = np.broadcast_to(np.asarray(indices[0]).astype(np.int64), step.output.shape)
    cases = len(step.inputs) - 1
    if which.size and not 0 <= which.min() <= which.max() < cases:
        raise NotCovered(f"{step}: it selects case {which.max()} of {cases}, which is not defined")
    return [which]


def _select_n(step: Step, arrays: list[Array], indices: list[Array]) -> Array:
    # A scalar literal may stand for an array, on both sides of the choice.
    cases = [
        broadcast(operand, step.output.shape, operand.shape[: operand.ndim - len(kind.shape)])
        for operand, kind in zip(arrays, step.inputs[1:], strict=True)
    ]
    return chosen(indices[0], cases)


def chosen(which: Array, cases: Sequence[Array]) -> Array:
    """Return per element one of arrays of one shape."""
    if len(cases) == 2:
        return np.where(which, cases[1], cases[0])
    if len(cases) <= 32:
        return np.choose(which, cases)
    picked: Array = np.take_along_axis(np.stack(cases), np.broadcast_to(which, cases[0].shape)[None], 0)[0]
    return picked


def _clamped(starts: Sequence[Array], shape: Sequence[int], sizes: Sequence[int]) -> tuple[slice, ...]:
    """A window of these sizes, pushed back inside where it would stick out."""
    slices = []
    for start, length, size in zip(starts, shape, sizes, strict=True):
        first = min(max(int(start), 0), length - size)
        slices.append(slice(first, first + size))
    return tuple(slices)


def _dynamic_slice(step: Step, arrays: list[Array], indices: list[Array]) -> Array:
    return _window(arrays[0], _clamped(indices, step.inputs[0].shape, step.params["slice_sizes"]))


def _dynamic_update_slice(step: Step, arrays: list[Array], indices: list[Array]) -> Array:
    whole = arrays[0].copy()
    _window(whole, _clamped(indices, step.inputs[0].shape, step.inputs[1].shape))[...] = arrays[1]
    return whole


def _gather(step: Step, arrays: list[Array], indices: list[Array]) -> Array:
    (targets, inside), (operand, fill) = indices, arrays
    fill = fill.reshape(_with(fill, (1,) * inside.ndim, 0))
    flat = operand.reshape(_with(operand, (-1,), len(step.inputs[0].shape)))
    return np.where(inside, np.take(flat, targets, -1) if operand.size else fill, fill)


def _fill(step: Step) -> Array:
    """What a gather gives out of range: `fill_value`, else NaN, or for integers the smallest (unsigned: largest).

    Also what stands in memory that was never written: reading it shows.
    """
    dtype, value = step.output.dtype, step.params.get("fill_value")
    if value is None:
        if step.output.is_float:
            value = np.nan
        elif dtype.kind == "b":
            value = True
        else:
            value = np.iinfo(dtype).min if dtype.kind == "i" else np.iinfo(dtype).max
    return np.asarray(value).astype(dtype).reshape(1)


def _written(step: Step, indices: list[Array]) -> list[Array]:
    """Return which elements a scatter writes, and which of its updates it writes there.

    Raises:
        NotCovered: two updates write one element.
    """
    targets, inside = windows.of_scatter(step, indices[0])
    written = targets[inside]
    if len(np.unique(written)) < written.size:
        raise NotCovered(f"{step}: two updates write one element, and which of them stays is not defined")
    return [written, inside]


def _scatter(step: Step, arrays: list[Array], indices: list[Array]) -> Array:
    written, inside = indices
    whole = arrays[0].reshape(_with(arrays[0], (-1,), len(step.inputs[0].shape))).copy()
    whole[..., written] = arrays[1][..., inside]
    return whole.reshape(arrays[0].shape)


MOVES: dict[str, MoveRule] = {
    "broadcast_in_dim": _one(_broadcast_in_dim),
    "concatenate": MoveRule(
        lambda step, arrays, indices: np.concatenate(arrays, step.params["dimension"] - len(step.output.shape))
    ),
    "dynamic_slice": MoveRule(_dynamic_slice, lambda step: range(1, len(step.inputs))),
    "dynamic_update_slice": MoveRule(_dynamic_update_slice, lambda step: range(2, len(step.inputs))),
    "empty": MoveRule(_filled, fill=_fill),
    "empty2": MoveRule(_filled, fill=_fill),
    "expand_dims": _one(_as_output),
    "gather": MoveRule(_gather, lambda step: (1,), _fill, lambda step, indices: windows.of_gather(step, indices[0])),
    "pad": MoveRule(lambda step, arrays, indices: padded(arrays[0], arrays[1], step.params["padding_config"])),
    "reshape": _one(_reshape),
    "rev": _one(_rev),
    "scatter": MoveRule(_scatter, lambda step: (1,), prepared=_written),
    "select_n": MoveRule(_select_n, lambda step: (0,), prepared=_choice),
    "slice": _one(_slice),
    "split": MoveRule(_split),
    "squeeze": _one(_as_output),
    "stack": MoveRule(lambda step, arrays, indices: np.stack(arrays, step.params["axis"] - len(step.output.shape))),
    "tile": _one(lambda step, arrays: np.tile(arrays, step.params["reps"])),
    "transpose": _one(lambda step, arrays: _transposed(arrays, step.params["permutation"])),
    "unstack": MoveRule(
        lambda step, arrays, indices: list(np.moveaxis(arrays[0], step.params["axis"] - len(step.inputs[0].shape), 0))
    ),
}
