"""What a step makes of the bounds of its operands: its rule, and what is the same for all rules.

The rules compiled by XLA (jax 0.10.2 on two cores) take 14 to 25 ns an element and in blocks of NumPy 22 to 28 ns: they
are not compiled.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from samebits.interpret.equation import Array, Step
from samebits.interpret.rounding_error.rules import (
    ELEMENTWISE,
    RULES,
    ErrorChange,
    FormatRounding,
    Growth,
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
    """

    value: Array
    error: Array
    likely: Array
    blame: Blame | None = None
    narrow_sum: NarrowSum = NO_SUM

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


def settle(
    step: Step, x: Sequence[Array], errors: Sequence[Array], y: Array, growth: Growth, platform: str
) -> tuple[Array, float, int]:
    """The new bound, the largest part of it that a step adds relative to its result, and the number of summands.

    Args:
        step, x, y: the operation, its exact operands and its exact result.
        errors: the bounds of the operands.
        growth, platform: as of `RuleOperands`.
    """
    ops = RuleOperands(step, x, errors, y, growth, platform)
    changes = _elementwise(ops) if step.name in ELEMENTWISE else _whole(ops)
    error, flat, largest, summands, kind = np.empty(y.size), y.reshape(-1), np.zeros(4), 0, format_of(step.output.dtype)
    for block, change, unsure in changes:
        kind = change.format or kind
        error[block], sizes = _settled(change, unsure, flat[block], kind)
        largest, summands = np.maximum(largest, sizes), max(summands, int(change.summands))
    biggest, whole, inherited, local = largest.tolist()
    # What is zero but for inherited errors or the roundings of float64 has no largest value; subnormal numbers have no
    # digits to lose.
    scale = max(biggest if biggest > max(1e-12 * whole, inherited) else whole, kind.tiny / kind.unit)
    return error.reshape(y.shape), local / scale, summands


def own_error(step: Step, exact: Sequence[Array], y: Array, platform: str) -> tuple[Array, float, int]:
    """What a step adds to the bound by itself, of operands without error; its share and summands as for `settle`."""
    return settle(step, exact, [np.zeros(np.shape(array)) for array in exact], y, worst, platform)


def _elementwise(ops: RuleOperands) -> Iterator[tuple[slice, ErrorChange, Any]]:
    """By block, what the step does to the bound, and which operands have an error."""
    x, errors, y = [_flat(each, ops.y) for each in ops.x], [_flat(each, ops.y) for each in ops.e], ops.y.reshape(-1)
    for block in blocks(y.size):
        own = [_at(each, block) for each in x]
        e = [flushed(a, _at(b, block), kind) for a, b, kind in zip(own, errors, ops.step.inputs, strict=True)]
        change = RULES[ops.step.name](ops._replace(x=own, e=e, y=y[block]))
        yield block, change, sum(e, np.zeros(())) > 0


def _whole(ops: RuleOperands) -> Iterator[tuple[slice, ErrorChange, Any]]:
    """The same of a step whose results depend on other places too."""
    ops = ops._replace(e=[flushed(*operand) for operand in zip(ops.x, ops.e, ops.step.inputs, strict=True)])
    change, unsure = RULES[ops.step.name](ops), any(e.any() for e in ops.e)
    reach, summands = None if change.reach is None else _flat(change.reach, ops.y), np.max(change.summands, initial=0)
    propagated, units, absolute = (_flat(each, ops.y) for each in (change.propagated, change.units, change.absolute))
    for block in blocks(ops.y.size):
        at_block = change._replace(
            propagated=_at(propagated, block),
            units=_at(units, block),
            absolute=_at(absolute, block),
            summands=summands,
            reach=None if reach is None else _at(reach, block),
        )
        yield block, at_block, unsure


def _flat(value: Any, y: Array) -> Any:
    return np.broadcast_to(value, y.shape).reshape(-1) if np.shape(value) else value


def _at(value: Any, block: slice) -> Any:
    return value[block] if np.shape(value) else value


def _settled(change: ErrorChange, unsure: Any, y: Array, kind: FormatRounding) -> tuple[Array, list[float]]:
    """The new bound of some elements; the largest result, reach, error of the operands, and error that is added."""
    finite, size_of_y = np.isfinite(y), np.abs(y)
    moved = np.broadcast_to(change.propagated, y.shape)
    if np.isnan(moved).any():
        moved = np.where(np.isnan(moved), np.where(unsure, np.inf, 0), moved)
    size = size_of_y + moved
    # A function may be computed from a quarter of its argument, which is flushed earlier.
    small = (size_of_y - moved < 4 * kind.tiny) & (change.units > 0)
    rounded = np.where(size > 0, change.units * kind.unit * size + np.where(small, 4 * kind.flush, 0), 0)
    if change.correct:
        rounded = np.where(np.logical_not(unsure) & kind.holds(y) & (size_of_y >= kind.tiny), 0, rounded)
    local = rounded + change.absolute
    reach = size if change.reach is None else change.reach
    local = np.where(np.isnan(local) | (np.maximum(reach, size) + local > kind.largest), np.inf, local)
    where = None if finite.all() else finite
    error = moved + local
    if where is not None:  # an exact infinity stays one
        error = np.where(finite, error, np.where(np.isfinite(moved), 0, np.inf))
    return error, [_largest(each, where) for each in (size_of_y, reach, moved, local)]


def _largest(sizes: Any, where: Array | None) -> float:
    """The largest of some sizes, at least 0."""
    if where is None:
        return float(np.max(sizes, initial=0.0))
    return float(np.max(np.broadcast_to(sizes, where.shape), initial=0.0, where=where))
