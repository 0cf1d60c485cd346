"""Primitives that move elements and change none: for each, the operand element of every output element.

A rule gets the elements of its operands as numbers, `ids`, numbered through from the first operand to the last, and
returns the same numbers in the places of the output. Whatever a domain holds per element then moves alike, so each
primitive is written once for all domains.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samebits.errors import NotCovered
from samebits.interpret import windows
from samebits.interpret.equation import Array, Step

Index = NDArray[np.int64]
Rule = Callable[[Step, list[Index], list[Array]], Index | list[Index]]

STILL = frozenset(
    {
        "copy",
        "copy_p",
        "device_put",
        "layout_constraint",
        "mesh_cast",
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
        rule: from the numbers of the elements to those of the outputs.
        index_operand_numbers: the numbers of the index operands, which are not moved themselves.
        fill: the constant that the number after the last element stands for.
    """

    rule: Rule
    index_operand_numbers: Callable[[Step], Sequence[int]] = lambda step: ()
    fill: Callable[[Step], Array] | None = None

    def index_operands(self, step: Step) -> tuple[int, ...]:
        """The numbers of the index operands of an equation."""
        return tuple(self.index_operand_numbers(step))

    def indices(self, step: Step, indices: list[Array]) -> list[Index]:
        """For each output, the number of the element in each of its places."""
        moved = [kind for number, kind in enumerate(step.inputs) if number not in self.index_operands(step)]
        ids, offset = [], 0
        for kind in moved:
            size = math.prod(kind.shape)
            ids.append(np.arange(offset, offset + size).reshape(kind.shape))
            offset += size
        outputs = self.rule(step, ids, indices)
        return outputs if isinstance(outputs, list) else [outputs]


def _one(change: Callable[[Step, Index], Index]) -> MoveRule:
    """A move of one operand by its parameters alone."""
    return MoveRule(lambda step, ids, indices: change(step, ids[0]))


def _broadcast_in_dim(step: Step, ids: Index) -> Index:
    shape = [1] * len(step.params["shape"])
    for own, dimension in enumerate(step.params["broadcast_dimensions"]):
        shape[dimension] = ids.shape[own]
    return np.broadcast_to(ids.reshape(shape), step.params["shape"])


def _reshape(step: Step, ids: Index) -> Index:
    order = step.params["dimensions"]  # some gradients transpose on the way
    return (ids if order is None else ids.transpose(order)).reshape(step.output.shape)


def _slice(step: Step, ids: Index) -> Index:
    params = step.params
    strides = params["strides"] or (1,) * ids.ndim
    bounds = zip(params["start_indices"], params["limit_indices"], strides, strict=True)
    return ids[tuple(slice(*bound) for bound in bounds)]


def _split(step: Step, ids: list[Index], indices: list[Array]) -> list[Index]:
    return np.split(ids[0], np.cumsum(step.params["sizes"])[:-1], step.params["axis"])


def _unstack(step: Step, ids: list[Index], indices: list[Array]) -> list[Index]:
    return [np.take(ids[0], number, step.params["axis"]) for number in range(len(step.outputs))]


def _pad(step: Step, ids: list[Index], indices: list[Array]) -> Index:
    return padded(ids[0], ids[1], step.params["padding_config"])


def padded(operand: Index, value: Any, config: Iterable[tuple[int, int, int]]) -> Index:
    """Pad an array as `jax.lax.pad` does: by axis how much before it, behind it, and between its elements."""
    for axis, (low, high, between) in enumerate(config):
        length = operand.shape[axis]
        spaced = max(length + max(length - 1, 0) * between, 0)
        shape = list(operand.shape)
        shape[axis] = max(low, 0) + spaced + max(high, 0)
        grown = np.broadcast_to(value, shape).copy()
        at = [slice(None)] * operand.ndim
        at[axis] = slice(max(low, 0), max(low, 0) + spaced, between + 1)
        grown[tuple(at)] = operand
        keep = [slice(None)] * operand.ndim
        keep[axis] = slice(max(-low, 0), shape[axis] - max(-high, 0))
        operand = grown[tuple(keep)]
    return operand


def _select_n(step: Step, ids: list[Index], indices: list[Array]) -> Index:
    # A scalar literal may stand for an array, on both sides of the choice.
    ids = [np.broadcast_to(operand, step.output.shape) for operand in ids]
    which = np.broadcast_to(np.asarray(indices[0]).astype(np.int64), step.output.shape)
    if which.size and not 0 <= which.min() <= which.max() < len(ids):
        raise NotCovered(f"{step}: it selects case {which.max()} of {len(ids)}, which is not defined")
    return np.choose(which, ids) if len(ids) <= 32 else np.stack(ids)[which, *np.indices(which.shape)]


def _clamped(starts: Sequence[Array], shape: Sequence[int], sizes: Sequence[int]) -> tuple[slice, ...]:
    """A window of these sizes, pushed back inside where it would stick out."""
    slices = []
    for start, length, size in zip(starts, shape, sizes, strict=True):
        first = min(max(int(start), 0), length - size)
        slices.append(slice(first, first + size))
    return tuple(slices)


def _dynamic_slice(step: Step, ids: list[Index], indices: list[Array]) -> Index:
    return ids[0][_clamped(indices, ids[0].shape, step.params["slice_sizes"])]


def _dynamic_update_slice(step: Step, ids: list[Index], indices: list[Array]) -> Index:
    whole = ids[0].copy()
    whole[_clamped(indices, whole.shape, ids[1].shape)] = ids[1]
    return whole


def _gather(step: Step, ids: list[Index], indices: list[Array]) -> Index:
    targets, inside = windows.of_gather(step, indices[0])
    return np.where(inside, ids[0].reshape(-1)[targets] if ids[0].size else 0, ids[0].size)


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


def _scatter(step: Step, ids: list[Index], indices: list[Array]) -> Index:
    targets, inside = windows.of_scatter(step, indices[0])
    written = targets[inside]
    if len(np.unique(written)) < written.size:
        raise NotCovered(f"{step}: two updates write one element, and which of them stays is not defined")
    whole = ids[0].reshape(-1).copy()
    whole[written] = ids[1][inside]
    return whole.reshape(ids[0].shape)


MOVES: dict[str, MoveRule] = {
    "broadcast_in_dim": _one(_broadcast_in_dim),
    "concatenate": MoveRule(lambda step, ids, indices: np.concatenate(ids, step.params["dimension"])),
    "dynamic_slice": MoveRule(_dynamic_slice, lambda step: range(1, len(step.inputs))),
    "dynamic_update_slice": MoveRule(_dynamic_update_slice, lambda step: range(2, len(step.inputs))),
    "empty": MoveRule(lambda step, ids, indices: np.zeros(step.output.shape, np.int64), fill=_fill),
    "empty2": MoveRule(lambda step, ids, indices: np.zeros(step.output.shape, np.int64), fill=_fill),
    "expand_dims": _one(lambda step, ids: ids.reshape(step.output.shape)),
    "gather": MoveRule(_gather, lambda step: (1,), _fill),
    "pad": MoveRule(_pad),
    "reshape": _one(_reshape),
    "rev": _one(lambda step, ids: np.flip(ids, step.params["dimensions"])),
    "scatter": MoveRule(_scatter, lambda step: (1,)),
    "select_n": MoveRule(_select_n, lambda step: (0,)),
    "slice": _one(_slice),
    "split": MoveRule(_split),
    "squeeze": _one(lambda step, ids: ids.reshape(step.output.shape)),
    "stack": MoveRule(lambda step, ids, indices: np.stack(ids, step.params["axis"])),
    "tile": _one(lambda step, ids: np.tile(ids, step.params["reps"])),
    "transpose": _one(lambda step, ids: ids.transpose(step.params["permutation"])),
    "unstack": MoveRule(_unstack),
}
