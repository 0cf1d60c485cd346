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
from samebits.interpret.data_movement import Move
from samebits.interpret.equation import Array, Step, Type

Outcomes = dict[int, list[Any]]
DECIDES = ("clamp", "eq", "ge", "gt", "le", "lt", "max", "min", "ne")


class Oracle:
    """The domain of float64 numbers; all its values are concrete.

    Args:
        stands: the numbers that some constants stand for, by their own; all others stand for the simplest one.
        outcomes: gets, by the id of a comparison, its step and how it came out: 1 for false, 2 for true, 3 for both;
            of a maximum, a minimum or a clip, which operand it took.
    """

    name = "oracle"
    keeps_constants = False
    covers = frozenset(ARITHMETIC)

    def __init__(self, stands: Mapping[float, float] | None = None, outcomes: Outcomes | None = None) -> None:
        self._stands = stands or {}
        self._outcomes = outcomes

    def lift(self, array: Array, kind: Type) -> Array:
        """The number that a float constant stands for."""
        numbers = np.asarray(literals.meant(array))
        for value, number in self._stands.items():
            numbers = np.where(np.asarray(array, np.float64) == value, number, numbers)
        return numbers

    def moved(self, values: Sequence[Any], move: Move, kind: Type) -> Array:
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
        result = evaluate(step, values)
        if self._outcomes is not None and step.name in DECIDES:
            first = np.not_equal(result[0], values[1]) if step.name in ("max", "min", "clamp") else result[0]
            outcome = self._outcomes.setdefault(id(step), [step, 0])  # it holds the step, whose id no other has then
            outcome[1] |= (0 if np.all(first) else 1) | (2 if np.any(first) else 0)
        return result

    def same(self, first: Array, second: Array) -> bool:
        """Equal, or apart by no more than two orders of adding can be."""
        return bool(np.allclose(first, second, rtol=1e-12, atol=0, equal_nan=True))


CLOSE = 1e-12
"""What float64 numbers that are equal but for rounding differ by, relative to the larger one."""

_AT_TIES = ("add", "sub", "eq", "ge", "gt", "le", "lt", "ne", "ceil", "convert_element_type", "floor", "round", "sign")


class Ties(Oracle):
    """The float64 numbers, where those that are equal up to rounding are equal, and what cancels up to it is zero."""

    name = "ties"

    def apply(self, step: Step, values: Sequence[Array]) -> list[Array]:
        """Plain arithmetic of numbers without the rounding that decides a tie."""
        if step.name not in _AT_TIES or not step.inputs[0].is_float:
            return super().apply(step, values)
        first, *rest = (np.asarray(value, np.float64) for value in values)
        if step.name in ("add", "sub"):
            (result,) = evaluate(step, values)
            return [np.where(np.abs(result) <= CLOSE * np.maximum(np.abs(first), np.abs(rest[0])), 0.0, result)]
        nearest = rest[0] if rest else np.round(2 * first) / 2
        with np.errstate(invalid="ignore"):
            is_close = np.abs(first - nearest) <= CLOSE * np.maximum(np.abs(first), np.abs(nearest))
        return super().apply(step, [np.where(is_close, nearest, first), *rest])


# A program as it is written, executed in NumPy: every result is rounded to the dtype of its equation.
class RoundedOracle(Oracle):
    """The domain of float64 numbers, each of which its dtype can hold."""

    name = "rounded"

    def apply(self, step: Step, values: Sequence[Array]) -> list[Array]:
        """Plain arithmetic, rounded."""
        outputs = super().apply(step, values)
        if step.name == "reduce_precision":
            outputs = [_with_bits(outputs[0], **step.params)]
        return [_rounded(array, kind) for array, kind in zip(outputs, step.outputs, strict=True)]

    def same(self, first: Array, second: Array) -> bool:
        """Equal up to the rounding of the coarsest training dtype: replicas may have been added up in two orders."""
        return bool(np.allclose(first, second, rtol=2.0**-7, atol=0, equal_nan=True))


def _rounded(array: Array, kind: Type) -> Array:
    if not kind.is_float or kind.dtype == np.float64:
        return array
    with np.errstate(all="ignore"):
        return np.asarray(array.astype(kind.dtype).astype(np.float64))


def _with_bits(array: Array, exponent_bits: int, mantissa_bits: int) -> Array:
    """Round to this many bits; beyond the largest number is infinity, and what is not normal is zero, as in XLA."""
    fraction, exponent = np.frexp(array)
    scale, bias = 2.0 ** (mantissa_bits + 1), 2.0 ** (exponent_bits - 1)
    rounded = np.ldexp(np.rint(fraction * scale) / scale, exponent)
    size, largest = np.abs(rounded), (2 - 2.0**-mantissa_bits) * 2.0 ** (bias - 1)
    limited = np.where(size > largest, np.inf, np.where(size < 2.0 ** (2 - bias), 0.0, size))
    return np.asarray(np.copysign(limited, array))
