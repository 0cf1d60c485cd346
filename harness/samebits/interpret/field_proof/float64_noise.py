"""The error of float64 itself: the running error bound of a program whose floats are all float64.

Two formulas that are equal differ in float64 by no more than both can be off, element by element. A number that is left
over from larger ones is off by more than its size says: log(a b) - log(a) is log(b), and in float64 only to the digits
that log(a) leaves of it.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from samebits.errors import NotCovered
from samebits.interpret import literals
from samebits.interpret.data_movement import Move
from samebits.interpret.equation import Array, Step, Type
from samebits.interpret.problem import Question
from samebits.interpret.rounding_error.domain import RoundingDomain
from samebits.interpret.rounding_error.estimate import estimate_errors, evaluate_with_bounds
from samebits.interpret.rounding_error.step_bounds import BoundedValue, lifted
from samebits.interpret.source_constants import SourceConstant, computed_alone, narrow_alone

_SHOWN = 3
_FIELDS = ("value", "error", "likely", "blame")
_FLOAT64 = np.dtype(np.float64)
_HALF_UNIT = 2.0**-24  # of float32, relative to the number: at least what rounding to the nearest is off by
_SLACK = 4.0  # of a bound: what is beyond that is not for libraries whose functions are off by some units
_LEFT = 2.0**-40  # of the largest of a table: what is left of its zeros, such as sines of multiples of pi
_SUMS = ("cumsum", "dot_general", "reduce_sum", "scatter-add")
_NO_DIGIT = 2.0**-20  # of its bound: such a number can be zero in float64; one beyond it is not looked at


class Constant(BoundedValue):
    """Numbers that depend on no float of the inputs."""

    __slots__ = ()


def _is_constant(values: Sequence[Any]) -> bool:
    return all(isinstance(value, Constant | np.ndarray) for value in values)


def _as_constant(value: Any) -> Any:
    return Constant(*(getattr(value, name) for name in _FIELDS)) if isinstance(value, BoundedValue) else value


class WidenedRounding(RoundingDomain):
    """The domain of numbers with error bounds, for a program whose floats are float64 and whose casts round nothing.

    Args:
        rounded: constants that are the roundings of numbers that are not known, and by how much, relative to the
            number. Where there are any, what a program computes from constants is off by what its own dtypes lose.
    """

    widened = True
    """Transforms are the products of matrices that float64 evaluates, and no algorithm of a dtype."""

    def __init__(self, rounded: Mapping[float, float] = MappingProxyType({})) -> None:
        super().__init__("cpu", usual=False)  # where float64 is multiplied as it is
        self._rounded = np.array(sorted(rounded.items()), np.float64).reshape(-1, 2).T
        self._steps: dict[int, tuple[Step, Step]] = {}
        self.left_range = False
        """Whether finite numbers gave one that is not, which float64 may have made of them."""

    def lift(self, array: Array, kind: Type) -> BoundedValue:
        """The number that a constant stands for."""
        value = np.asarray(literals.meant(array))
        own = np.asarray(array, np.float64)
        with np.errstate(invalid="ignore"):  # infinities
            error = self._units(own) * np.abs(own) + np.abs(own - value)
            error += _LEFT * np.max(np.abs(own), initial=0.0) if own.size > 1 else 0.0
        error = np.where(np.isin(own, self._rounded[0]), error, 0.0)
        return Constant(value, error, error)

    def _units(self, own: Array) -> Array:
        values, units = self._rounded
        return units[np.minimum(np.searchsorted(values, own), units.size - 1)] if units.size else np.zeros(())

    def moved(self, values: Sequence[Any], move: Move, kind: Type) -> BoundedValue:
        """Elements with their errors."""
        moved = super().moved(values, move, _wide(kind))
        return _as_constant(moved) if _is_constant(values) else moved

    def apply(self, step: Step, values: Sequence[Any]) -> list[Any]:
        """What float64 makes of the errors; of constants, what the dtypes of the program do."""
        if _is_constant(values) and self._rounded.size:
            return [_as_constant(output) for output in super().apply(step, values)]
        if step.name == "reduce_precision":
            return [lifted(values[0])]
        if id(step) not in self._steps:
            sides = (tuple(_wide(kind) for kind in kinds) for kinds in (step.inputs, step.outputs))
            inputs, outputs = sides
            self._steps[id(step)] = step, replace(step, inputs=inputs, outputs=outputs)
        results = super().apply(self._steps[id(step)][1], values)
        if step.name in _SUMS and all(map(_is_whole, values)):  # of integers float64 loses none, such as of counts
            results = [BoundedValue(each.value, zero, zero) for each in results for zero in [np.zeros(each.shape)]]
        self.left_range = self.left_range or (
            not all(map(_is_finite, results)) and all(_is_finite(value) for value in values)
        )
        return results


def _is_whole(value: Any) -> bool:
    exact = not isinstance(value, BoundedValue) or not value.error.any()
    return exact and bool(np.all(lifted(value).value == np.round(lifted(value).value)))


def _is_finite(value: Any) -> bool:
    return not isinstance(value, BoundedValue) or bool(np.isfinite(value.value).all())


def _wide(kind: Type) -> Type:
    return Type(kind.shape, _FLOAT64) if kind.is_float else kind


class Float64Noise:
    """What rounding in float64 can do to the outputs of both programs of a question; computed on first use.

    Args:
        question: with the inputs at which the programs are compared.
        rounded: constants that are the roundings of numbers that are not known, whose rounding counts too.
    """

    def __init__(self, question: Question, rounded: Mapping[float, float] = MappingProxyType({})) -> None:
        self._question = question
        self._rounded = rounded
        self._sides: dict[int, dict[str, Array]] = {}
        self._certain = True

    def side(self, number: int, output: str) -> Array | None:
        """How far an output can be off on one side, 0 the reference's; None where that is not known."""
        if number not in self._sides:
            self._sides[number] = self._bounds(self._question.sides[number])
        return self._sides[number].get(output)

    def _bounds(self, program: Any) -> dict[str, Array]:
        domain, question = WidenedRounding(self._rounded), self._question
        try:
            with np.errstate(all="ignore"):  # infinities, of larger inputs
                outputs = evaluate_with_bounds(domain, program, question)
        except NotCovered:
            return {}
        self._certain = self._certain and not (domain.near_ties or domain.left_range or domain.jumps)
        # An integer that was made of a number that may as well be below it hands no bound on.
        return {} if domain.jumps else {name: output.error for name, output in outputs.items()}

    @property
    def decides(self) -> bool:
        """Whether float64 decides each comparison on the way, and makes no finite number infinite."""
        self.both("")
        return self._certain

    def both(self, output: str) -> Array | None:
        """How far two equal formulas of an output can be apart; infinite or None where that is not known."""
        first, second = self.side(0, output), self.side(1, output)
        return None if first is None or second is None else np.asarray(first + second)

    def explains(self, output: str, first: Array, second: Array) -> Array:
        """Where the numbers of both sides differ by no more than float64 does. An infinite bound explains nothing."""
        apart, bound = self._apart(output, first, second)
        return np.asarray(apart <= bound)

    def excludes(self, output: str, first: Array, second: Array) -> Array:
        """Where the numbers of both sides differ by clearly more than float64 does; nowhere without a bound."""
        apart, bound = self._apart(output, first, second)
        return np.asarray(apart > _SLACK * bound)

    def _apart(self, output: str, first: Array, second: Array) -> tuple[Array, Array]:
        """How far numbers are apart, and may be: NaN, with which all comparisons are false, where that is not known."""
        bound = self.both(output)
        if bound is None or bound.shape != first.shape:
            bound = np.array(np.nan)
        with np.errstate(invalid="ignore"):  # infinities of one sign
            return np.abs(first - second), np.where(np.isinf(bound), np.nan, bound)


class Excuses:
    """Why two outputs may differ in float64 though their formulas are one, in words.

    Args:
        question: with the inputs at which the programs are compared.
    """

    def __init__(self, question: Question) -> None:
        self._question = question
        self.float64 = Float64Noise(question)

    @functools.cached_property
    def _alone(self) -> dict[float, SourceConstant]:
        return computed_alone(*self._question.sides)

    @functools.cached_property
    def _constants(self) -> Float64Noise:
        return Float64Noise(self._question, dict.fromkeys(self._alone, _HALF_UNIT))

    @functools.cached_property
    def _all_constants(self) -> Float64Noise:
        return Float64Noise(self._question, half_units(self._question))

    def laws(self, output: str, first: Array, second: Array, differs: Array) -> bool:
        """Whether all that differs does so by no more than float64 itself can: some law of functions may be missing."""
        return bool(np.all(self.float64.explains(output, first, second)[differs]))

    def small(self, output: str, first: Array, second: Array, differs: Array) -> bool:
        """Whether nothing speaks against it that float64 makes what differs; without a bound, nothing does."""
        return not np.any(self.float64.excludes(output, first, second) & differs)

    def constants(self, output: str, first: Array, second: Array, differs: Array) -> str | None:
        """The constants whose rounding explains all that differs; None where it does not."""
        if not self._alone or not np.all(self._constants.explains(output, first, second)[differs]):
            return None
        named = [str(constant) for constant in self._alone.values()]
        more = f" and {len(named) - _SHOWN} more" if len(named) > _SHOWN else ""
        return f"the rounding of constants that were computed explains what differs: {', '.join(named[:_SHOWN])}{more}"

    def beyond(self, output: str, first: Array, second: Array) -> Array:
        """Where neither float64 nor the rounding of constants, in whatever dtype, explains what differs."""
        return ~self._all_constants.explains(output, first, second)

    def beyond_constants(self, output: str, first: Array, second: Array) -> Array:
        """Find what is not due to the rounding of constants, at inputs where conditions tie.

        Where float64's own noise would explain a difference too, it stays: at a tie that noise is taken out.
        """
        by_constants = self._all_constants.explains(output, first, second)
        return ~by_constants | self.float64.explains(output, first, second)

    def certain(self, output: str, first: Array, second: Array) -> Array:
        """Where float64 itself shows that two finite numbers differ; nowhere without a bound."""
        noise = self._all_constants
        finite = np.isfinite(first) & np.isfinite(second)
        return finite & noise.decides & noise.excludes(output, first, second)

    def both(self, output: str, exact: bool) -> Array | None:
        """How far two equal formulas can be apart in float64; with constants that are exact, or may be rounded."""
        return (self.float64 if exact else self._constants).both(output)


def half_units(question: Question) -> dict[float, float]:
    """The constants that one of both programs alone has and that may be rounded, with half their last unit."""
    programs = question.sides
    return {**dict.fromkeys(computed_alone(*programs), _HALF_UNIT), **narrow_alone(*programs)}


class IdealValue(NamedTuple):
    """What a leaf should hold, and the floor of its errors (`floor_of`)."""

    value: Array
    floor: Array | None = None


def floored_values(question: Question, platform: str) -> dict[str, IdealValue]:
    """The float64 values of the reference with their floors, by output.

    Raises:
        NotCovered: the float64 domain has no rule for an equation.
    """
    noise, estimate = Float64Noise(question), estimate_errors(question.reference, question, platform)
    return {
        name: IdealValue(value, floor_of(value, estimate.bounds[name], noise, name))
        for name, value in estimate.values.items()
    }


def floor_of(value: Array, bound: Array, noise: Float64Noise, output: str) -> Array | None:
    """An error that counts as none where a value of the reference is zero but for rounding, as float64 has it.

    Such a value has no size to hold errors against: the terms that cancel in it have. What they may leave is the bound
    of the reference's own rounding; what they happen to leave on one side, zero perhaps, is an accident.

    Args:
        value, bound: the reference's output in float64, and the bound of its rounding in its own dtypes.
        noise: what float64 can be off by.

    Returns:
        The bound, or zero where the value is one; None where all of them are.
    """
    if not np.any(np.abs(value) < _NO_DIGIT * bound):
        return None
    own = noise.side(0, output)
    if own is None:
        return None
    cancelled = (np.abs(value) <= own) & np.isfinite(bound) & np.isfinite(own)
    return np.where(cancelled, bound, 0.0) if cancelled.any() else None
