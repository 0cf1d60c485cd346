"""How a whole array may lie on the devices of a mesh, and which of their values are parts of a sum."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from samebits.interpret.alignment.fingerprints import CLOSE, shadow_of
from samebits.interpret.devices import PerDevice
from samebits.interpret.equation import Array

_MOST_AXES = 4  # of an array whose axes are also tried in other orders


def layouts(whole: Sequence[int], local: Sequence[int], grid: Sequence[int]) -> Iterator[tuple[Array, tuple[int, ...]]]:
    """The ways in which parts of one shape make up a whole array: its flat indices by device, and the axes not used.

    Each dimension is whole, or cut over some axes of the mesh: into blocks, or into windows that overlap evenly, as
    those with the ends of their neighbours do.

    Args:
        whole, local: the shapes of the array and of its parts.
        grid: the sizes of the axes of the mesh.
    """
    rank = len(local)
    shape = _of_rank(tuple(whole), tuple(local))
    if shape is None:
        return
    numbers = np.arange(math.prod(whole)).reshape(shape)
    orders = itertools.permutations(range(rank)) if rank <= _MOST_AXES else iter([tuple(range(rank))])
    for order in orders:
        yield from _cuts(numbers.transpose(order), tuple(local), tuple(grid))


def _of_rank(whole: tuple[int, ...], local: tuple[int, ...]) -> tuple[int, ...] | None:
    """The shape of a whole array with as many dimensions as its parts: those of size one come and go."""
    lean = tuple(size for size in whole if size > 1)
    if len(whole) == len(local):
        return whole
    return (*lean, *(1,) * (len(local) - len(lean))) if len(lean) <= len(local) else None


def _cuts(numbers: Array, local: tuple[int, ...], grid: tuple[int, ...]) -> Iterator[tuple[Array, tuple[int, ...]]]:
    ways = [_ways(size, part, grid) for size, part in zip(numbers.shape, local, strict=True)]
    places = np.indices(grid).reshape(len(grid), -1)
    for chosen in itertools.product(*ways):
        used = [axis for axes, _ in chosen for axis in axes]
        if len(used) != len(set(used)):
            continue
        index = []
        for dim, (axes, step) in enumerate(chosen):
            number = np.zeros(places.shape[1], np.int64)
            for axis in axes:
                number = number * grid[axis] + places[axis]
            at = number[:, None] * step + np.arange(local[dim])
            index.append(at.reshape(-1, *(local[dim] if d == dim else 1 for d in range(len(local)))))
        taken = numbers[tuple(index)] if index else np.broadcast_to(numbers, (places.shape[1],))
        yield taken, tuple(axis for axis in range(len(grid)) if axis not in used and grid[axis] > 1)


def _ways(size: int, part: int, grid: tuple[int, ...]) -> list[tuple[tuple[int, ...], int]]:
    """The axes of the mesh over which a dimension may be cut into parts, and how far apart these begin."""
    if size == part:
        return [((), 0)]
    ways = []
    for count in range(1, len(grid) + 1):
        for axes in itertools.permutations(range(len(grid)), count):
            parts = math.prod(grid[axis] for axis in axes)
            if parts > 1 and 0 < size - part <= (parts - 1) * part and (size - part) % (parts - 1) == 0:
                ways.append((axes, (size - part) // (parts - 1)))
    return ways


def summands(axes: Sequence[int], grid: Sequence[int]) -> Iterator[Array]:
    """The ways in which some devices have a value and the others zero, so that sums over axes give it: who has it."""
    places = np.indices(grid).reshape(len(grid), -1)
    for count in range(1, len(axes) + 1):
        for summed in itertools.combinations(axes, count):
            yield (places[[*summed]] == 0).all(axis=0)


def is_partial(value: Any, wanted: PerDevice, grid: tuple[int, ...]) -> bool:
    """Whether each device has a part of a sum over some axes of the mesh, where the whole sum is wanted."""
    if not isinstance(value, PerDevice):
        return False
    own, whole = (np.stack([shadow_of(part) for part in parts]) for parts in (value.values, wanted.values))
    own, whole = (array.reshape(*grid, *array.shape[1:]) for array in (own, whole))
    if not np.isfinite(own).all() or not whole.any():
        return False
    bound = CLOSE * np.abs(own).max() * math.prod(grid)
    for count in range(1, len(grid) + 1):
        for axes in itertools.combinations(range(len(grid)), count):
            if bool(np.all(np.abs(own.sum(axes, keepdims=True) - whole) <= bound)):
                return math.prod(grid[axis] for axis in axes) > 1
    return False
