"""Constant arrays at symbolic places: one value, an arithmetic progression, or a case for every place."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from samebits.errors import NotCovered
from samebits.interpret.all_sizes.demand import Index, constant
from samebits.interpret.all_sizes.facts import Facts, Integer, MapPiece, equal
from samebits.interpret.all_sizes.polynomial import of
from samebits.interpret.all_sizes.space import Space

MOST = 4096
"""The most places of a constant that are distinguished."""


def element_of(space: Space, array: np.ndarray[Any, Any], index: Index, facts: Facts) -> list[MapPiece]:
    """What stands at a place of a constant array.

    Raises:
        NotCovered: it has too many different elements.
    """
    flat = array.reshape(-1)
    if flat.size and flat.tobytes() == flat[:1].tobytes() * flat.size:
        return [MapPiece((), constant(flat[0]))]
    affine = _affine(array, index)
    if affine is not None:
        return [MapPiece((), affine)]
    choices = [
        [place.constant] if place.constant is not None else range(array.shape[a]) for a, place in enumerate(index)
    ]
    if array.size > MOST:
        raise NotCovered(f"a constant of {array.size} elements at a symbolic place; at most {MOST} are distinguished")
    pieces = []
    for place in itertools.product(*choices):
        wanted = tuple(equal(symbolic, number) for symbolic, number in zip(index, place, strict=True))
        own = space.simplified(wanted)
        if own is not None and not space.contradicts((*facts, *own)):
            pieces.append(MapPiece(own, constant(array[place])))
    return pieces


def _affine(array: np.ndarray[Any, Any], index: Index) -> Integer | None:
    """The element as a sum of its indices with factors, where the array is one."""
    if array.dtype.kind not in "iu" or not array.size:
        return None
    wide = array.astype(object)
    first = wide[(0,) * wide.ndim]
    expected, value = np.full(wide.shape, first, object), of(int(first))
    for axis, size in enumerate(wide.shape):
        if size > 1:
            step = wide[(0,) * axis + (1,) + (0,) * (wide.ndim - axis - 1)] - first
            expected = expected + step * np.arange(size).astype(object).reshape(-1, *(1,) * (wide.ndim - axis - 1))
            value = value + index[axis] * int(step)
    return Integer(value) if bool(np.all(expected == wide)) else None
