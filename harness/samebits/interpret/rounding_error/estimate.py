"""How large rounding errors may be, and are: programs evaluated in float64, with running error bounds beside it.

The ideal value is that of the formula as it is written: floats of any dtype are float64 and casts between them are
identities, so that code in a fixed float32 is judged as code that follows its inputs' dtype.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from samebits.errors import NotCovered
from samebits.interpret.equation import Array
from samebits.interpret.interpreter import Interpreter
from samebits.interpret.oracle import Oracle
from samebits.interpret.problem import Input, Question
from samebits.interpret.rounding_error.domain import RoundingDomain
from samebits.interpret.rounding_error.value import BoundedValue, NarrowSum, exactly
from samebits.numerics import floats


@dataclass(frozen=True, slots=True)
class ErrorEstimate:
    """One program at one input: what it should give, and how far rounding may take it from there.

    Args:
        values: by output, the float64 value.
        bounds: by output, the worst case of |computed - value|, for any order of each sum.
        likely: by output, the same with the square root of the number of summands: information, not a bound.
        loses_most: by output, the operation with the largest error of its own, in words.
        narrow_sums: by output, the longest sum in a type narrower than float32.
    """

    values: dict[str, Array]
    bounds: dict[str, Array]
    likely: dict[str, Array]
    loses_most: dict[str, str | None]
    narrow_sums: dict[str, NarrowSum]


def estimate_errors(
    program: Any, question: Question, inputs: list[Array], platform: str, *, usual: bool = False
) -> ErrorEstimate:
    """Interpret one program of a question at given inputs.

    Args:
        program: a closed jaxpr.
        question: names the inputs and outputs.
        inputs: the flat inputs, in the order of the question's.
        platform: where the program runs, which decides how wide products of matrices are.
        usual: whether the likely errors are evaluated too; else there are none.

    Raises:
        NotCovered: the float64 domain has no rule for an equation.
    """
    domain = RoundingDomain(platform, usual=usual)
    estimate = ErrorEstimate({}, {}, {}, {}, {})
    for name, output in evaluate_with_bounds(domain, program, question, inputs).items():
        estimate.values[name], estimate.bounds[name] = output.value, output.error
        if usual:
            estimate.likely[name] = output.likely
        estimate.loses_most[name], estimate.narrow_sums[name] = output.loses_most, output.narrow_sum
        if domain.jumps:
            estimate.bounds[name] = np.full(output.shape, np.inf)
            estimate.likely.update({name: estimate.bounds[name]} if usual else {})
    return estimate


def evaluate_with_bounds(
    domain: RoundingDomain, program: Any, question: Question, inputs: list[Array]
) -> dict[str, BoundedValue]:
    """The float outputs of one program of a question, in a domain of numbers with bounds.

    Raises:
        NotCovered: the float64 domain has no rule for an equation.
    """
    args = [_argument(argument, array) for argument, array in zip(question.inputs, inputs, strict=True)]
    outputs = Interpreter(domain, question.platform)(program, *args)
    named = zip(question.outputs, outputs, strict=True)
    return {name: output for name, output in named if isinstance(output, BoundedValue)}


def ideal_values(
    program: Any, question: Question, inputs: list[Array], stands: Mapping[float, float] | None = None
) -> dict[str, Array]:
    """The float64 values of a program alone, at a third of the cost of its bounds; by output.

    Args:
        program, question, inputs: as for `estimate_errors`.
        stands: the numbers that some constants stand for, by their own.

    Raises:
        NotCovered: the float64 domain has no rule for an equation.
    """
    args = [
        array.astype(np.float64) if _is_rounded(argument, array) else array
        for argument, array in zip(question.inputs, inputs, strict=True)
    ]
    outputs = Interpreter(Oracle(stands), question.platform)(program, *args)
    return {
        name: value
        for name, value in zip(question.outputs, outputs, strict=True)
        if isinstance(value, np.ndarray) and value.dtype.kind == "f"
    }


def _argument(argument: Input, array: Array) -> Any:
    array = np.asarray(array)
    return exactly(array) if _is_rounded(argument, array) else array


def _is_rounded(argument: Input, array: Array) -> bool:
    """Whether an input holds floats.

    Raises:
        NotCovered: its numbers are complex.
    """
    if floats.is_complex(array.dtype):
        raise NotCovered(f"'{argument.name}' is {array.dtype.name}, which has no meaning in float64")
    return floats.is_float(array.dtype)
