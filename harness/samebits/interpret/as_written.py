"""A program as it is written, executed in NumPy: every result is rounded to the dtype of its equation.

An estimate of what a compiler's program gives, not its bits: a sum is added up in float64 and rounded once, and nothing
is fused. What one side rounds and the other does not is visible in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from samebits.interpret.equation import Array, Step, Type
from samebits.interpret.interpreter import Interpreter
from samebits.interpret.oracle import Oracle
from samebits.interpret.problem import Question


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


def simulate(program: Any, question: Question) -> dict[str, Array]:
    """The outputs of one program of a question at its inputs, by name, in their own dtypes.

    Raises:
        NotCovered: an equation has no rule.
    """
    kinds = question.types(program)
    args = [
        argument.values if argument.values.dtype.kind in "iub" else np.asarray(argument.values).astype(np.float64)
        for argument in question.inputs
    ]
    with np.errstate(all="ignore"):
        outputs = Interpreter(RoundedOracle(), question.platform)(program, *args)
        return {
            name: np.asarray(output).astype(kind.dtype)
            for name, output, kind in zip(question.outputs, outputs, kinds, strict=True)
        }


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
