"""What a step makes of the bounds of its operands: its rule, and what is the same for all rules.

The rules compiled by XLA (jax 0.10.2 on two cores) take 14 to 25 ns an element and in blocks of NumPy 13 to 40 ns: they
are not compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from samebits.host.numpy_threads import in_threads
from samebits.interpret.equation import Array, Step, Type
from samebits.interpret.rounding_error.rules import (
    ELEMENTWISE,
    RULES,
    ErrorChange,
    FormatRounding,
    RuleOperands,
    blocks,
    flushed,
    format_of,
    worst,
)


# A number of the rounding domain: the exact value, how far rounding can take it, and which step contributes most.
@dataclass(frozen=True, slots=True, eq=False)
class Blame:
    """An operation with the error that it makes of its own.

    Args:
        share: its error, relative to the largest value of its result.
        summands: how many each element of its result has.
        taken_as: what a matrix unit takes its operands as, where that loses digits.
    """

    share: float
    summands: int
    step: Step
    taken_as: str | None = None

    def __str__(self) -> str:
        """Such as `dot_general[float32 as TensorFloat-32, 16 summands] at norms.py:9 (up to 0.002 of the largest)`."""
        kind = self.step.output.dtype.name + (f" as {self.taken_as}" if self.taken_as else "")
        terms = f", {self.summands} summands" if self.summands > 1 else ""
        place = f" at {self.step.place}" if self.step.place else ""
        return f"{self.step.name}[{kind}{terms}]{place} (up to {self.share:.2g} of the largest value)"


class NarrowSum(NamedTuple):
    """Additions in a type narrower than float32, one after the other, whose error grows with their number.

    Args:
        additions: how many.
    """

    additions: int
    step: Step | None


NO_SUM = NarrowSum(0, None)


@dataclass(frozen=True, slots=True, eq=False)
class BoundedValue:
    """Numbers with what rounding can have done to them: three float64 arrays of one shape.

    Args:
        error: how far the computed number is from each at most; infinite where nothing is known.
        likely: the same when the roundings of sums have random signs; information, not a bound.
        blame: of the steps that it comes from, that with the largest error of its own.
        narrow_sum: of the sums that it comes from, the longest in a narrow type.
        normal: whether it is known that no number can be subnormal, so that none is flushed.
    """

    value: Array
    error: Array
    likely: Array
    blame: Blame | None = None
    narrow_sum: NarrowSum = NO_SUM
    normal: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the value."""
        return self.value.shape

    @property
    def loses_most(self) -> str | None:
        """The operation to blame, its error relative to the largest value of its result; None where nothing rounds."""
        return None if self.blame is None else str(self.blame)

    def used(self, computed: Any) -> Array:
        """How much of the bound each computed number uses: above 1 it is outside.

        Where the exact number is infinite or NaN, the computed one must be the same.
        """
        computed = np.asarray(computed).astype(np.float64)
        with np.errstate(all="ignore"):
            share = np.abs(computed - self.value) / self.error
        equal = (computed == self.value) | (np.isnan(computed) & np.isnan(self.value))
        return np.where(equal | np.isinf(self.error), 0, np.where(np.isnan(share), np.inf, share))


def exactly(array: Any) -> BoundedValue:
    """Numbers without error: inputs and constants."""
    value = np.asarray(array).astype(np.float64)
    nothing = np.zeros(value.shape)
    return BoundedValue(value, nothing, nothing)


def blamed(values: Sequence[Any]) -> Blame | None:
    """The step to blame most of those that the values come from."""
    return max(
        (v.blame for v in values if isinstance(v, BoundedValue) and v.blame), key=lambda b: b.share, default=None
    )


def longest_sum(values: Sequence[Any]) -> NarrowSum:
    """The longest sum in a narrow type of those that the values come from."""
    sums = [value.narrow_sum for value in values if isinstance(value, BoundedValue)]
    return max(sums, key=lambda each: each.additions, default=NO_SUM)


def lifted(value: Any) -> BoundedValue:
    """A value as it is, or a concrete array without error."""
    return value if isinstance(value, BoundedValue) else exactly(value)


class Settled(NamedTuple):
    """The new bound, the largest part of it that a step adds relative to its result, and the number of summands.

    Args:
        normal: as of `BoundedValue`.
    """

    error: Array
    share: float
    summands: int
    normal: bool


def settle(ops: RuleOperands, normal: Sequence[bool]) -> Settled:
    """What a step makes of the bounds of its operands, of which some are known to be `normal` as of `BoundedValue`."""
    step, y = ops.step, ops.y
    kinds = [None if known else kind for known, kind in zip(normal, step.inputs, strict=True)]
    change_at = (_elementwise if step.name in ELEMENTWISE else _whole)(ops, kinds)
    error, flat, kind = np.empty(y.size), y.reshape(-1), format_of(step.output.dtype)

    def settled(block: slice) -> tuple[float, ...]:
        change, unsure = change_at(block)
        into = change.format or kind
        error[block], sizes = _settled(change, unsure, flat[block], into)
        return (*sizes, float(change.summands), into.tiny / into.unit)

    largest = np.max(in_threads(settled, blocks(y.size), y.size), axis=0)
    abnormal, biggest, whole, inherited, local, summands, digitless = largest.tolist()
    # What is zero but for inherited errors or the roundings of float64 has no largest value; subnormal numbers have no
    # digits to lose.
    scale = max(biggest if biggest > max(1e-12 * whole, inherited) else whole, digitless)
    return Settled(error.reshape(y.shape), local / scale, int(summands), not abnormal)


def own_error(step: Step, exact: Sequence[Array], y: Array, platform: str) -> Settled:
    """What a step adds to the bound by itself, of operands without error."""
    nothing = [np.zeros(np.shape(array)) for array in exact]
    return settle(RuleOperands(step, exact, nothing, y, worst, platform), [False] * len(exact))


ChangeAt = Callable[[slice], tuple[ErrorChange, Any]]
"""From a block to what a step does to the bound there, and which elements have operands with an error."""


def _elementwise(ops: RuleOperands, kinds: Sequence[Type | None]) -> ChangeAt:
    """Of a step whose results depend on the operands in their own places; the kinds of those that may be flushed."""
    x, errors, y = [_flat(each, ops.y) for each in ops.x], [_flat(each, ops.y) for each in ops.e], ops.y.reshape(-1)

    def at_block(block: slice) -> tuple[ErrorChange, Any]:
        own = [_at(each, block) for each in x]
        e = [flushed(a, _at(b, block), kind) for a, b, kind in zip(own, errors, kinds, strict=True)]
        change = RULES[ops.step.name](ops._replace(x=own, e=e, y=y[block]))
        return change, any(np.min(each, initial=np.inf) > 0 for each in e) or sum(e, np.zeros(())) > 0

    return at_block


def _whole(ops: RuleOperands, kinds: Sequence[Type | None]) -> ChangeAt:
    """Of a step whose results depend on other places too; the kinds of the operands that may be flushed."""
    ops = ops._replace(e=[flushed(*operand) for operand in zip(ops.x, ops.e, kinds, strict=True)])
    change, unsure = RULES[ops.step.name](ops), any(e.any() for e in ops.e)
    parts = [_flat(each, ops.y) for each in (change.propagated, change.units, change.absolute, change.reach)]
    summands = np.max(change.summands, initial=0)

    def at_block(block: slice) -> tuple[ErrorChange, Any]:
        moved, units, absolute, reach = (_at(each, block) for each in parts)
        return ErrorChange(moved, units, absolute, change.correct, summands, reach, change.format), unsure

    return at_block


def _flat(value: Any, y: Array) -> Any:
    return np.broadcast_to(value, y.shape).reshape(-1) if np.shape(value) else value


def _at(value: Any, block: slice) -> Any:
    return value[block] if np.shape(value) else value


ABSORBED = 2.0**60
"""From so many times the smallest normal number on, what is flushed is below the last digit of a bound in float64."""


def _settled(change: ErrorChange, unsure: Any, y: Array, kind: FormatRounding) -> tuple[Array, tuple[float, ...]]:
    """The new bound of some elements; whether one may be flushed, and the largest result, reach, old and new error."""
    size_of_y, moved = np.abs(y), np.broadcast_to(change.propagated, y.shape)
    size = size_of_y + moved
    farthest = np.maximum.reduce(size, initial=0.0)  # NaN or infinite where anything is
    if np.isnan(farthest) and np.isnan(moved).any():
        moved = np.where(np.isnan(moved), np.where(unsure, np.inf, 0), moved)
        size = size_of_y + moved
    least, rounded = np.minimum.reduce(size, initial=np.inf), change.units * kind.unit * size
    absorbed = ABSORBED * kind.tiny
    abnormal = not least >= absorbed and bool(np.any((size < absorbed) & (size > 0)))
    if abnormal or not np.isfinite(farthest) or not (least > 0 or np.isfinite(change.units).all()):
        # A function may be computed from a quarter of its argument, which is flushed earlier.
        small = (size_of_y - moved < 4 * kind.tiny) & (change.units > 0)
        rounded = np.where(size > 0, rounded + np.where(small, 4 * kind.flush, 0), 0)
    if change.correct and not np.all(unsure):
        rounded = np.where(np.logical_not(unsure) & kind.holds(y) & (size_of_y >= kind.tiny), 0, rounded)
    local = rounded
    if np.any(change.absolute):
        local = rounded + change.absolute
        abnormal = abnormal or (not least > 0 and bool(np.any((size == 0) & (local > 0) & (local < absorbed))))
    reach = size if change.reach is None else change.reach
    if not np.max(reach, initial=farthest) + np.max(local, initial=0.0) <= kind.largest:
        local = np.where(np.isnan(local) | (np.maximum(reach, size) + local > kind.largest), np.inf, local)
    where: Any = True
    error = moved + local
    if not (np.isfinite(farthest) or (where := np.isfinite(y)).all()):  # an exact infinity stays one
        error = np.where(where, error, np.where(np.isfinite(moved), 0, np.inf))
    return error, (abnormal, *(_largest(each, where) for each in (size_of_y, reach, moved, local)))


def _largest(sizes: Any, where: Any) -> float:
    """The largest of some sizes, at least 0."""
    if where is True:
        return float(np.maximum.reduce(sizes, None, initial=0.0))
    return float(np.max(np.broadcast_to(sizes, where.shape), initial=0.0, where=where))
