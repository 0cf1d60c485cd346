"""How the elements of an argument are drawn, as data; the drawing itself is in `inputs`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from samebits.errors import DeclarationError


@dataclass(frozen=True, kw_only=True, slots=True)
class Normal:
    """Normal numbers, made distinct on the dtype's own number line wherever it has that many numbers.

    Equivalent to `offset + scale * rng.standard_normal(shape)`, then nudged upward to the next free number. The default
    states nothing of an argument: proofs of formulas are then tried at larger and at smaller numbers too.

    Args:
        scale: the standard deviation; 1 by default.
        offset: the mean; 0 by default.
    """

    scale: float = 1.0
    offset: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Uniform:
    """Floats of `[low, high]`, for an argument that only takes these, such as a probability or a variance.

    Equivalent to `rng.uniform(low, high, shape)`, with both ends included and repeats moved to free numbers.

    Args:
        low: the smallest value; 0 by default.
        high: the largest value; 1 by default.

    Raises:
        DeclarationError: the range is empty or not finite.
    """

    low: float = 0.0
    high: float = 1.0

    def __post_init__(self) -> None:
        if not (self.low < self.high and math.isfinite(self.low) and math.isfinite(self.high)):
            raise DeclarationError(
                f"Uniform(low={self.low}, high={self.high}) is not a range of floats; expected finite low < high"
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class Integers:
    """Integers of `[low, high)`, with the bounds themselves present wherever there is room.

    Args:
        low: the smallest value; 0 by default.
        high: the end of the range, excluded.
        also: values outside the range that must appear too, such as ids that are out of range.

    Raises:
        DeclarationError: the range is empty.
    """

    low: int = 0
    high: int
    also: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.high <= self.low:
            raise DeclarationError(f"Integers(low={self.low}, high={self.high}) is an empty range; expected low < high")


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Given:
    """An array that there is already: the first draw is the array itself, each further one a variation of it.

    Further draws of floats that look like random numbers have them in another order too, so that no two of them nearly
    cancel in all draws; sorted or symmetric arrays, ones, and what else looks structured keep their places.

    A variation of floats is the array with every element moved by up to a quarter of its value, which retains signs,
    zeros and infinities; equal elements, as of a bias that was initialised with zeros, become distinct. A variation of
    integers or bools is the array itself: they mostly select something, and other values could be out of range.

    Args:
        array: of NumPy, of any shape and dtype.
        copies: how many variations are stacked along a new leading axis, for a case under `vmap`; 0, the default, for
            none.
        exactly: whether these are all integers or booleans that there are; else, by default, they are an example, and
            others are tried.
    """

    array: Any
    copies: int = 0
    exactly: bool = False


Draw = Callable[[Any, tuple[int, ...]], Any]
"""A function `(numpy.random.Generator, shape) -> numpy array`, for inputs with a structure of their own."""

Values = Normal | Uniform | Integers | Given | Draw
