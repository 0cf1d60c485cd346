"""How large rounding errors may be, and are: programs evaluated in float64, with running error bounds beside it.

The ideal value is that of the formula as it is written: floats of any dtype are float64 and casts between them are
identities, so that code in a fixed float32 is judged as code that follows its inputs' dtype.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from samebits.errors import NotCovered
from samebits.interpret.equation import Array, Step
from samebits.interpret.interpreter import Interpreter
from samebits.interpret.oracle import Oracle
from samebits.interpret.problem import Input, Question
from samebits.interpret.rounding_error.domain import RoundingDomain
from samebits.interpret.rounding_error.rules import taken_as
from samebits.interpret.rounding_error.step_bounds import Blame, BoundedValue, NarrowSum, exactly, lifted, own_error
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


def estimate_errors(program: Any, question: Question, platform: str, *, usual: bool = False) -> ErrorEstimate:
    """Interpret one program of a question at its inputs.

    Args:
        platform: where the program runs, which decides how wide products of matrices are.
        usual: whether the likely errors are evaluated too; else there are none.

    Raises:
        NotCovered: the float64 domain has no rule for an equation.
    """
    domain = RoundingDomain(platform, usual=usual)
    estimate = ErrorEstimate({}, {}, {}, {}, {})
    for name, output in evaluate_with_bounds(domain, program, question).items():
        estimate.values[name], estimate.bounds[name] = output.value, output.error
        if usual:
            estimate.likely[name] = output.likely
        estimate.loses_most[name], estimate.narrow_sums[name] = output.loses_most, output.narrow_sum
        if domain.jumps:
            estimate.bounds[name] = np.full(output.shape, np.inf)
            estimate.likely.update({name: estimate.bounds[name]} if usual else {})
    return estimate


def evaluate_with_bounds(domain: RoundingDomain, program: Any, question: Question) -> dict[str, BoundedValue]:
    """The float outputs of one program of a question, in a domain of numbers with bounds.

    Raises:
        NotCovered: the float64 domain has no rule for an equation.
    """
    args = [
        exactly(array) if _is_rounded(argument, array) else array
        for argument, array in zip(question.inputs, question.arrays, strict=True)
    ]
    outputs = Interpreter(domain, question.platform)(program, *args)
    named = zip(question.outputs, outputs, strict=True)
    return {name: output for name, output in named if isinstance(output, BoundedValue)}


def ideal_values(program: Any, question: Question, stands: Mapping[float, float] | None = None) -> dict[str, Array]:
    """The float64 values of a program alone, at a third of the cost of its bounds; by output.

    Args:
        stands: the numbers that some constants stand for, by their own.

    Raises:
        NotCovered: the float64 domain has no rule for an equation.
    """
    args = [
        array.astype(np.float64) if _is_rounded(argument, array) else array
        for argument, array in zip(question.inputs, question.arrays, strict=True)
    ]
    outputs = Interpreter(Oracle(stands), question.platform)(program, *args)
    return {
        name: value
        for name, value in zip(question.outputs, outputs, strict=True)
        if isinstance(value, np.ndarray) and value.dtype.kind == "f"
    }


def _is_rounded(argument: Input, array: Array) -> bool:
    """Whether an input holds floats.

    Raises:
        NotCovered: its numbers are complex.
    """
    if floats.is_complex(array.dtype):
        raise NotCovered(f"'{argument.name}' is {array.dtype.name}, which has no meaning in float64")
    return floats.is_float(array.dtype)


# The operation that explains the error of one element: found by trial, not guessed from the largest error bound.
TRIED = 12
"""How many operations are tried, those with the largest errors of their own relative to their results."""
EXPLAINS = 0.5
"""The part of an element's error that the named operation explains at least."""
ALONE = 2.0
"""How many times more than any other operation it explains."""
MOVED = 2.0**-20
"""By how much, relative to each, inputs are moved to break ties."""
AGREE = 1e-2
"""What is left of a difference, once ties are broken, that was due to them."""
NAMED = 3
"""Ties in more places are not named."""


class NudgedRounding(RoundingDomain):
    """Numbers with bounds, one operation's result moved by the error that it may make of its own.

    Args:
        platform: as for `RoundingDomain`.
        number: of the operation, counted from 0 in the order of evaluation; None moves none.
        seed: of the signs of the errors; None is all upwards.
    """

    def __init__(self, platform: str, number: int | None = None, seed: int | None = None) -> None:
        super().__init__(platform)
        self.number, self.seed, self.count = number, seed, 0
        self.steps: list[tuple[float, int, int, Step]] = []
        """By operation: its share, its number, how many summands it has, and what it is."""

    def _bounded(self, step: Step, values: Sequence[Any], exact: Sequence[Array], y: Array) -> BoundedValue:
        bounded, number = super()._bounded(step, values, exact, y), self.count
        self.count += 1
        if self.number is None:
            own = own_error(step, exact, y, self.platform)
            if own.share > 0:
                self.steps.append((own.share, number, own.summands, step))
        if number != self.number:
            return bounded
        error = own_error(step, exact, y, self.platform).error
        signs = 1.0 if self.seed is None else np.random.default_rng(self.seed).choice([-1.0, 1.0], y.shape)
        return replace(bounded, value=y + signs * np.where(np.isfinite(error), error, 0))


class TieRecorder(RoundingDomain):
    """Numbers with bounds that notes which comparisons met equal numbers."""

    def __init__(self, platform: str) -> None:
        super().__init__(platform)
        self.tied: dict[str, None] = {}

    def apply(self, step: Step, values: Sequence[Any]) -> list[Any]:
        """As it is, after a look at what is compared."""
        if step.inputs and step.inputs[0].is_float:
            x = lifted(values[0]).value
            if step.name in ("max", "min", "gt", "ge", "lt", "le"):
                self._met(step, bool(np.any(x == lifted(values[1]).value)))
            elif step.name in ("reduce_max", "reduce_min"):
                ends = np.max if step.name == "reduce_max" else np.min
                axes = tuple(step.params["axes"])
                best = ends(x, axis=axes, keepdims=True) if x.size else x
                self._met(step, bool(np.any(np.sum(x == best, axis=axes) > 1)))
        return super().apply(step, values)

    def ranks(self, step: Step, value: Any, axis: int) -> Array:
        """As they are, after a look at them."""
        x = lifted(value).value
        if step.name in ("argmax", "argmin"):
            best = (np.max if step.name == "argmax" else np.min)(x, axis=axis, keepdims=True)
            self._met(step, bool(np.any(np.sum(x == best, axis=axis) > 1)))
        else:
            self._met(step, bool(np.any(np.diff(np.sort(x, axis), axis=axis) == 0)))
        return super().ranks(step, value, axis)

    def _met(self, step: Step, tied: bool) -> None:
        if tied:
            self.tied.setdefault(step.located)


def loses_most(
    program: Any, question: Question, platform: str, output: str, index: tuple[int, ...], off: float
) -> Blame | None:
    """The operation whose own error explains that of one element; None where none does, or several may.

    Args:
        off: how far the element is from its float64 value.

    Raises:
        NotCovered: the float64 domain has no rule for an equation.
    """

    def value(domain: NudgedRounding) -> float:
        return float(evaluate_with_bounds(domain, program, question)[output].value[index])

    plain = NudgedRounding(platform)
    before, moved = value(plain), []
    for share, number, summands, step in heapq.nlargest(TRIED, plain.steps, key=lambda candidate: candidate[:2]):
        far = max(abs(value(NudgedRounding(platform, number, seed)) - before) for seed in (None, number))
        moved.append((far, summands, step, share))
    moved.sort(key=lambda candidate: -candidate[0])
    if not moved:
        return None
    far, summands, step, share = moved[0]
    if not EXPLAINS * off <= far < np.inf or far < ALONE * max((candidate[0] for candidate in moved[1:]), default=0.0):
        return None
    return Blame(share, summands, step, taken_as(step, platform))


def tie(question: Question, platform: str, output: str, index: tuple[int, ...]) -> str | None:
    """The comparisons of equal numbers for which the sides differ in float64 in one element, in words.

    Returns:
        None where the sides differ for another reason, or too many comparisons met equal numbers.

    Raises:
        NotCovered: the float64 domain has no rule for an equation.
    """
    rng = np.random.default_rng(0)
    broken = replace(question, inputs=[replace(each, values=_moved(each.values, rng)) for each in question.inputs])
    apart = []
    for either in (question, broken):
        first, second = (ideal_values(side, either)[output][index] for side in question.sides)
        apart.append(abs(float(first) - float(second)))
    if not (np.isfinite(apart[1]) and apart[1] <= AGREE * apart[0]):
        return None
    ties: dict[str, None] = {}
    for program in question.sides:
        domain = TieRecorder(platform)
        evaluate_with_bounds(domain, program, question)
        ties.update(domain.tied)
    return " or ".join(ties) if 0 < len(ties) <= NAMED else None


def _moved(array: Array, rng: np.random.Generator) -> Array:
    """Inputs of which no two are equal any more, as far as they are floats."""
    if not floats.is_float(array.dtype):
        return array
    wide = np.asarray(array, np.float64)
    scale = np.where(wide == 0, np.finfo(np.float32).tiny, np.abs(wide))
    with np.errstate(invalid="ignore"):
        moved: Array = wide + MOVED * scale * rng.uniform(0.5, 1.5, wide.shape)
    return np.where(np.isfinite(wide), moved, wide)
