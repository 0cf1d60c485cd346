"""The float64 domain: every float of the program, whatever its dtype, is a float64, and casts round nothing.

So a literal is the number that it stands for: the ideal 0.9 x is that of 0.9, which float32 does not have.

The judge of which side is closer. Sums of float64 numbers are themselves off by about 1e-16 times their length, which
is far below what any training dtype resolves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from samebits.interpret import literals
from samebits.interpret.arrays import ARITHMETIC, evaluate
from samebits.interpret.equation import Array, Step, Type


class Oracle:
    """The domain of float64 numbers; all its values are concrete.

    Args:
        stands: the numbers that some constants stand for, by their own; all others stand for the simplest one.
    """

    name = "oracle"
    keeps_constants = False
    covers = frozenset(ARITHMETIC)

    def __init__(self, stands: Mapping[float, float] | None = None) -> None:
        self._stands = stands or {}

    def lift(self, array: Array, kind: Type) -> Array:
        """The number that a float constant stands for."""
        numbers = np.asarray(literals.meant(array))
        for value, number in self._stands.items():
            numbers = np.where(np.asarray(array, np.float64) == value, number, numbers)
        return numbers

    def take(self, values: Sequence[Any], index: Array, kind: Type) -> Array:
        """Not used: all values are concrete, and the interpreter moves concrete arrays itself."""
        raise AssertionError

    def ranks(self, step: Step, value: Array, axis: int) -> Array:
        """The numbers are their own ranks."""
        return value

    def concrete(self, step: Step, value: Array) -> Array:
        """The numbers themselves."""
        return value

    def apply(self, step: Step, values: Sequence[Array]) -> list[Array]:
        """Plain arithmetic."""
        return evaluate(step, values)

    def same(self, first: Array, second: Array) -> bool:
        """Equal, or apart by no more than two orders of adding can be."""
        return bool(np.allclose(first, second, rtol=1e-12, atol=0, equal_nan=True))
