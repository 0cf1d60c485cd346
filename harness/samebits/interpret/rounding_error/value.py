"""A number of the rounding domain: the exact value, how far rounding can take it, and which step contributes most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from samebits.interpret.equation import Array, Step


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
