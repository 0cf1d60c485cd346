"""Where the elements of an array lie in memory: minor-to-major orders and tiles with padding, and casts through them.

A `bitcast` of a compiled program says that two shapes are the same bytes. What it does to elements follows from both
layouts: memory is a number of mixed radix, each digit of which is one of an index of the array, so that a cast is a
reshape, a transposition and a reshape. Dimensions that do not fill their tiles are padded before and cut after; a place
that is padding in the first shape and an element in the second holds whatever was there.

Source: XLA, "Shapes and layout" and "Tiled layout".
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jax import lax

from samebits.errors import CouldNotRun

_COMBINE = -(2**63)
"""XLA's size of a tile's dimension that is joined with the next more minor one."""

Digit = tuple[int, int]
"""How many values a digit has, and how far apart the elements are whose numbers differ by one in it."""


@dataclass(frozen=True, slots=True)
class Placement:
    """An array in memory.

    Args:
        dims: its dimensions, after as many of size 1 as its tiles have more.
        padded: the same, each filled up to whole tiles.
        digits: of memory, from major to minor, over elements of the padded array in row-major order.
    """

    dims: tuple[int, ...]
    padded: tuple[int, ...]
    digits: tuple[Digit, ...]

    @classmethod
    def of(cls, shape: Any) -> Placement | None:
        """Return where an array of an HLO shape lies; None where its tiles pad what other tiles made."""
        dims = tuple(shape.dimensions)
        order = tuple(shape.layout.minor_to_major)
        order = order if len(order) == len(dims) else tuple(reversed(range(len(dims))))
        return _placement(dims, order, tuple(tuple(tile.dimensions) for tile in shape.layout.tiles))


@functools.lru_cache(maxsize=1024)
def _placement(dims: tuple[int, ...], order: tuple[int, ...], tiles: tuple[tuple[int, ...], ...]) -> Placement | None:
    first = tiles[0] if tiles else ()
    extra = max(len(first) - len(dims), 0) if _COMBINE not in first else 0
    dims = (1,) * extra + dims
    order = (*(axis + extra for axis in order), *reversed(range(extra)))
    padded = list(dims)
    if _COMBINE not in first:
        for axis, width in zip(order, reversed(first), strict=False):
            padded[axis] += -padded[axis] % width
    digits = [(padded[axis], math.prod(padded[axis + 1 :])) for axis in reversed(order)]
    for tile in tiles:
        tiled = _tiled(digits, tile)
        if tiled is None:
            return None
        digits = tiled
    return Placement(dims, tuple(padded), tuple(digits))


def _tiled(digits: list[Digit], tile: tuple[int, ...]) -> list[Digit] | None:
    """Split the minor digits into tiles, whose own digits come last; None where a digit is not filled by tiles."""
    digits = [(1, 1)] * (len(tile) - len(digits)) + digits
    while _COMBINE in tile:
        at = tile.index(_COMBINE)
        place = len(digits) - len(tile) + at
        (size, weight), (minor, step) = digits[place : place + 2]
        if weight != minor * step and 1 not in (size, minor):
            return None
        joined = (size * minor, step if minor > 1 else weight)
        digits, tile = [*digits[:place], joined, *digits[place + 2 :]], (*tile[:at], *tile[at + 1 :])
    lead, minor_digits = digits[: len(digits) - len(tile)], digits[len(digits) - len(tile) :]
    if any(size % width for (size, _), width in zip(minor_digits, tile, strict=True)):
        return None
    outer = [(size // width, weight * width) for (size, weight), width in zip(minor_digits, tile, strict=True)]
    inner = [(width, weight) for (_, weight), width in zip(minor_digits, tile, strict=True)]
    return [*lead, *outer, *inner]


def cast(value: Any, source: Placement, target: Placement, dims: tuple[int, ...], filler: Any) -> tuple[Any, bool]:
    """Return the bytes of an array as another, and whether it holds any that nothing wrote.

    Args:
        dims: of the result.
        filler: a scalar of its dtype for those.
    """
    unwritten = _exposes(source, target)
    # Padding that no element comes from is zero, so that no number of ours stands in the program.
    filler = filler if unwritten else np.zeros((), filler.dtype)
    if not (math.prod(source.dims) and math.prod(dims)):
        return lax.full(dims, filler), unwritten
    if source.padded != source.dims:
        fill = [(0, whole - size, 0) for size, whole in zip(source.dims, source.padded, strict=True)]
        value = lax.pad(lax.reshape(value, source.dims), filler, fill)
    moved = _move(value, source, target)
    if moved is None:
        moved = _refill(value, source, target, filler)
    cut = lax.slice(moved, [0] * moved.ndim, target.dims) if target.padded != target.dims else moved
    return lax.reshape(cut, dims), unwritten


def cast_memory(parts: Sequence[tuple[Any, Placement]], target: Placement, dims: tuple[int, ...], dtype: Any) -> Any:
    """Return arrays that lie one after the other in memory as one of another dtype.

    Raises:
        CouldNotRun: one of them is padded.
    """
    if any(place.padded != place.dims for place in (target, *(source for _, source in parts))):
        raise CouldNotRun("a cast of padded arrays that are several, or whose elements have another size")
    memory = lax.concatenate([to_memory(value, source.digits) for value, source in parts], 0)
    return lax.reshape(from_memory(as_dtype(memory, dtype), target), dims)


def as_dtype(memory: Any, dtype: Any) -> Any:
    """Return the bytes of a flat array as elements of another dtype, a predicate as 0 or 1."""
    if memory.dtype == dtype:
        return memory
    if np.bool_ in (memory.dtype, dtype):
        return memory.astype(dtype)
    factor = max(dtype.itemsize // memory.dtype.itemsize, 1)
    grouped = memory.reshape(-1, factor) if factor > 1 else memory
    return lax.bitcast_convert_type(grouped, dtype).reshape(-1)


def _refill(value: Any, source: Placement, target: Placement, filler: Any) -> Any:
    """Cast through flat memory, which is cut or filled up."""
    memory, size = to_memory(value, source.digits), math.prod(target.padded)
    missing = size - memory.shape[0]
    return from_memory(memory[:size] if missing <= 0 else lax.pad(memory, filler, [(0, missing, 0)]), target)


def _move(value: Any, source: Placement, target: Placement) -> Any:
    """Cast as reshape, transposition, reshape; None where the digits of the two do not divide each other."""
    common = _common(source.digits, target.digits)
    if common is None:
        return None
    digits = _merged(sorted(common, key=lambda digit: -digit[2]))
    by_source = sorted(range(len(digits)), key=lambda at: -digits[at][1])
    value = lax.reshape(value, [digits[at][0] for at in by_source])
    value = lax.transpose(value, [int(at) for at in np.argsort(by_source)]) if digits else value
    return lax.reshape(value, target.padded)


def _common(first: Sequence[Digit], second: Sequence[Digit]) -> list[tuple[int, int, int]] | None:
    """Return digits that make up those of both: how many values, and the weights in both."""
    left, right = ([digit for digit in digits if digit[0] != 1] for digits in (first, second))
    common = []
    while left and right:
        (size, weight), (other, step) = left.pop(), right.pop()
        both = math.gcd(size, other)
        if both not in (size, other):
            return None
        common.append((both, weight, step))
        if size > both:
            left.append((size // both, weight * both))
        if other > both:
            right.append((other // both, step * both))
    return None if left or right else common


def _merged(digits: Sequence[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Join digits that lie beside each other in both numbers."""
    merged: list[tuple[int, int, int]] = []
    for size, weight, step in digits:
        if merged and merged[-1][1] == size * weight and merged[-1][2] == size * step:
            merged[-1] = merged[-1][0] * size, weight, step
        else:
            merged.append((size, weight, step))
    return merged


def to_memory(value: Any, digits: Sequence[Digit]) -> Any:
    """Return a padded array, of jax or NumPy, as memory has it, flat."""
    split = sorted(range(len(digits)), key=lambda at: (-digits[at][1], -digits[at][0]))
    value = value.reshape([digits[at][0] for at in split])
    return value.transpose([int(at) for at in np.argsort(split)]).reshape(-1)


def from_memory(memory: Any, target: Placement) -> Any:
    """Return memory as an array of the padded dimensions."""
    order = sorted(range(len(target.digits)), key=lambda at: (-target.digits[at][1], -target.digits[at][0]))
    return memory.reshape([size for size, _ in target.digits]).transpose(order).reshape(target.padded)


@functools.lru_cache(maxsize=256)
def _exposes(source: Placement, target: Placement) -> bool:
    """Tell whether a cast makes elements of what is padding in its source, or lies behind it."""
    if source.padded == source.dims and math.prod(source.padded) >= math.prod(target.padded):
        return False
    written = np.zeros(source.padded, bool)
    written[tuple(slice(size) for size in source.dims)] = True
    memory = np.zeros(math.prod(target.padded), bool)
    known = to_memory(written, source.digits)[: memory.size]
    memory[: known.size] = known
    return not from_memory(memory, target)[tuple(slice(size) for size in target.dims)].all()
