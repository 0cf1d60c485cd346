"""Pictures of the elements of a leaf whose bits differ, from the arrays of both sides; made only where some do."""

from __future__ import annotations

import collections
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samebits.numerics import floats
from samebits.numerics.difference_kinds import differing
from samebits.programs.placement import Index
from samebits.schema.picture import HeatMap, Picture, Window

Array = NDArray[Any]
Place = tuple[str, tuple[int, ...]]
"""An input and the index of an element."""

_ZERO, _NONE = -1, -2
"""In place of an exponent: both sides are zeros; one side is infinite or NaN."""


@dataclass(frozen=True, slots=True)
class Detail:
    """How much of a leaf is shown: a document has many leaves.

    Args:
        bins: of the heat map along each axis, at most.
        rows, columns: of the window, at most.
        parts: of the array by devices, at most; with none, neither these nor the inputs are counted apart.
    """

    bins: int
    rows: int
    columns: int
    parts: int


FULL = Detail(bins=32, rows=3, columns=5, parts=128)
"""Of a leaf that fails."""

BRIEF = Detail(bins=8, rows=1, columns=3, parts=0)
"""Of a leaf whose difference its contract accepts."""


@dataclass(frozen=True, slots=True)
class LeafArrays:
    """A leaf as both sides gave it.

    Args:
        sides: by input, the reference's and the variant's array.
        parts: by the part of the array, the numbers of the devices that hold it in the variant's.
    """

    sides: Mapping[str, tuple[Array, Array]]
    parts: Mapping[Index, Sequence[int]]


def picture(leaf: LeafArrays, detail: Detail, witness: Place | None, ideal: Array | None = None) -> Picture | None:
    """Return the picture of a leaf.

    Args:
        witness: the element around which values are shown.
        ideal: the exact values on the input of the witness, where they are known; of complex numbers the parts along
            one more dimension.

    Returns:
        None where no bits differ that could be compared: the sides have another dtype or shape, or equal bits.
    """
    types = {(array.dtype, array.shape) for sides in leaf.sides.values() for array in sides}
    if len(types) != 1:
        return None
    compared = {label: _differing(*both) for label, both in leaf.sides.items()}
    masks, far = (
        [mask for mask, _ in compared.values()],
        sum((far for _, far in compared.values()), collections.Counter()),
    )
    if not far:
        return None
    inside = {} if not 1 < len(leaf.parts) <= detail.parts else leaf.parts
    return Picture(
        heat=_heat(masks, leaf.parts, detail.bins),
        ulps=_histogram(far),
        inputs={label: int(np.count_nonzero(mask)) for label, (mask, _) in compared.items()} if detail.parts else {},
        devices={", ".join(map(str, devices)): _within(part, masks) for part, devices in inside.items()},
        window=None if witness is None else _window(leaf.sides[witness[0]], witness, ideal, detail),
    )


_BLOCK = 1 << 16
"""Elements that are looked at together: what is made of them on the way stays small."""


def _differing(reference: Array, optimized: Array) -> tuple[Array, collections.Counter[int]]:
    """Return which elements of two arrays differ, and how many of these are apart by each power of two."""
    left, right = (np.ascontiguousarray(array).reshape(-1) for array in (reference, optimized))
    differs, far = np.zeros(left.size, bool), collections.Counter[int]()
    for start in range(0, left.size, _BLOCK):
        block = slice(start, start + _BLOCK)
        differs[block], ulps, finite = differing(left[block], right[block])
        values, counts = np.unique(np.where(finite, _exponents(ulps), _NONE), return_counts=True)
        far.update(dict(zip(values.tolist(), counts.tolist(), strict=True)))
    return differs.reshape(reference.shape), far


def _exponents(ulps: Array) -> Array:
    """Return the largest power of two in each distance; -1 of a distance of 0."""
    high = ulps >> np.uint64(32)  # halves of an integer of 64 bits are exact in float64
    _, exponents = np.frexp(np.where(high > 0, high, ulps).astype(np.float64))
    return np.where(ulps > 0, exponents - 1 + 32 * (high > 0), _ZERO)


def _histogram(counted: Mapping[int, int]) -> dict[str, int]:
    """Return how many have each exponent, in order; those without a distance last."""
    return {
        {_NONE: "none", _ZERO: "0"}.get(value, f"2^{value}"): counted[value]
        for value in sorted(counted, key=lambda exponent: (exponent == _NONE, exponent))
    }


def _long_axes(shape: Sequence[int]) -> list[int]:
    """Return the axes that are longer than 1."""
    return [axis for axis, size in enumerate(shape) if size > 1]


def _heat(masks: Sequence[Array], parts: Iterable[Index], most: int) -> HeatMap:
    """Return the counts of chosen elements in at most so many bins along each of the first two long axes."""
    shape = masks[0].shape
    bins = {axis: min(shape[axis], most) for axis in _long_axes(shape)[:2]}
    rows, columns = [(1, 1), (1, 1), *((shape[axis], number) for axis, number in bins.items())][-2:]
    starts = [-(-np.arange(number) * size // number) for size, number in (rows, columns)]
    grid = np.zeros((rows[1], columns[1]), np.int64)
    for mask in masks:
        by_row = np.add.reduceat(mask.reshape(rows[0], columns[0], -1), starts[0], axis=0, dtype=np.int64)
        grid += np.add.reduceat(by_row.sum(axis=-1), starts[1], axis=1)
    edges = {axis: sorted({0, *(part[axis][0] for part in parts), shape[axis]}) for axis in bins}
    return HeatMap(
        edges={str(axis): " ".join(map(str, places)) for axis, places in edges.items()},
        counts="\n".join(map(_row, grid.tolist())),
    )


def _row(counts: Sequence[int]) -> str:
    """Write counts as text, runs of equal ones shortened."""
    runs = ((count, len([*run])) for count, run in itertools.groupby(counts))
    return " ".join(str(count) if length == 1 else f"{count}*{length}" for count, length in runs)


def _within(part: Index, masks: Sequence[Array]) -> int:
    """Return how many chosen elements lie in a part of the array."""
    return sum(int(np.count_nonzero(mask[tuple(slice(*ends) for ends in part)])) for mask in masks)


def _window(sides: tuple[Array, Array], witness: Place, ideal: Array | None, detail: Detail) -> Window:
    """Return the values around an element."""
    (reference, optimized), (label, at) = sides, witness
    axes = _long_axes(reference.shape)[-2:]
    most = dict(zip(reversed(axes), (detail.columns, detail.rows), strict=False))
    shape = [min(most.get(axis, 1), size) for axis, size in enumerate(reference.shape)]
    starts = [
        max(0, min(place - (length - 1) // 2, size - length))
        for place, length, size in zip(at, shape, reference.shape, strict=True)
    ]
    ends = [(start, start + shape[axis]) for axis, start in enumerate(starts)]
    box = tuple(slice(*part) for part in ends)
    columns = shape[axes[-1]] if axes else 1
    if ideal is not None and ideal.ndim > reference.ndim:
        ideal = ideal[..., 0] + 1j * ideal[..., 1]

    def rows(array: Array, shown: Callable[[Any], str]) -> str:
        lines = (" ".join(shown(value).replace(", ", ",") for value in row) for row in array.reshape(-1, columns))
        return "\n".join(lines)

    return Window(
        input=label,
        elements=f"[{', '.join(_range(axis in axes, *part) for axis, part in enumerate(ends))}]",
        reference=rows(reference[box], floats.show),
        optimized=rows(optimized[box], floats.show),
        reference_hex=rows(reference[box], floats.hexadecimal),
        optimized_hex=rows(optimized[box], floats.hexadecimal),
        ideal=None if ideal is None else rows(ideal[box], lambda value: f"{value:.12g}"),
    )


def _range(is_range: bool, start: int, end: int) -> str:
    return f"{start}:{end}" if is_range else str(start)
