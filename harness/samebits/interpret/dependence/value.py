"""A value in the domain of dependence: per element a set of groups, and what is known of its number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samebits.interpret.dependence.sets import Numbers
from samebits.interpret.equation import Array, Type

States = NDArray[np.int8]

OPEN, KNOWN, LOW, HIGH = 0, 1, 2, 3
"""What is known of an element. `OPEN`: nothing. `KNOWN`: its number, so that it depends on no input. `LOW` and `HIGH`:
it is about a large negative or positive number, to which one of ordinary size was added, such as a masked score."""

LARGE = 2000.0
"""From this magnitude on a number in a program is a mask: 1e4 and more in use, where exp(-104) is 0 in float32."""

FILLER = 1
"""The number of an element that is open: it is computed with, and never looked at."""


@dataclass(frozen=True, slots=True)
class Dependent:
    """A value of which not every element is known.

    Args:
        sets: by element, the number of the set of groups that it may be computed from; 0 where it is known.
        states: by element, one of `OPEN`, `KNOWN`, `LOW`, `HIGH`.
        numbers: by element, its number where it is known, and about its number where it is low or high.
    """

    sets: Numbers
    states: States
    numbers: Array

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the value."""
        return self.sets.shape

    def each(self, change: Callable[[Array], Array]) -> Dependent:
        """Return the value with each of its arrays rearranged alike."""
        return Dependent(change(self.sets), change(self.states), change(self.numbers))

    def part(self, index: Any) -> Dependent:
        """Return the elements at an index."""
        return self.each(lambda array: np.asarray(array[index]))

    def known(self) -> NDArray[np.bool_]:
        """Return which elements are known."""
        return np.asarray(self.states == KNOWN)

    def equals(self, number: float) -> NDArray[np.bool_]:
        """Return which elements are known to be a number."""
        return np.asarray((self.states == KNOWN) & (self.numbers == number))

    def sizes(self) -> NDArray[np.int8]:
        """Return by element -1 where it is very negative, 1 where it is very large, and else 0."""
        known = self.states == KNOWN
        low = (self.states == LOW) | (known & (self.numbers <= -LARGE))
        high = (self.states == HIGH) | (known & (self.numbers >= LARGE))
        return np.asarray(high.astype(np.int8) - low.astype(np.int8))


def of_number(array: Any, kind: Type) -> Dependent:
    """Return a value every element of which is known."""
    numbers = np.asarray(array, number_dtype(kind))
    shape = numbers.shape
    return Dependent(np.broadcast_to(np.int32(0), shape), np.broadcast_to(np.int8(KNOWN), shape), numbers)


def opened(sets: Numbers, kind: Type) -> Dependent:
    """Return a value of which nothing is known but what it may depend on."""
    filler = np.broadcast_to(number_dtype(kind).type(FILLER), sets.shape)
    return Dependent(sets, np.broadcast_to(np.int8(OPEN), sets.shape), filler)


def settled(value: Dependent) -> Dependent | Array:
    """Return a value as an array where every element is known; known elements depend on nothing."""
    known = value.known()
    if known.all():
        return np.ascontiguousarray(value.numbers)
    sets = np.where(known, np.int32(0), value.sets) if known.any() else value.sets
    numbers = np.where(value.states == OPEN, value.numbers.dtype.type(FILLER), value.numbers)
    return Dependent(sets, value.states, numbers)


def number_dtype(kind: Type) -> np.dtype[Any]:
    """Return the dtype of numbers: float64 for all floats."""
    return np.dtype(np.float64) if kind.is_float else kind.dtype


def together(change: Callable[[list[Array]], Array], values: Sequence[Dependent]) -> Dependent:
    """Return values put together, each of their arrays by the same function."""
    return Dependent(*(change([getattr(value, name) for value in values]) for name in Dependent.__slots__))


def chosen(where: Array, first: Dependent, second: Dependent) -> Dependent:
    """Return the first value's elements where a mask is true, and the second's elsewhere."""
    return together(lambda arrays: np.where(where, *arrays), [first, second])


def broadcast(values: Sequence[Dependent], shape: tuple[int, ...]) -> list[Dependent]:
    """Return values of one shape: a scalar literal may stand for an array."""
    return [value if value.shape == shape else value.each(lambda a: np.broadcast_to(a, shape)) for value in values]
