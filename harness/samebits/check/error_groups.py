"""The errors of two sides in one draw, by groups of elements: how many times larger is the variant's, and is it biased?

A ratio over a whole leaf hides what happens beside large values, so the same ratio is taken of classes of magnitude, of
rows by their own size, and of every slice along every dimension. Each is normalised by the reference's error in the
same elements, and never by less than rounding the exact result to the output's dtype makes: an error uniform over one
unit in the last place has the root mean square 1/sqrt(12) of it, and no more than half of it at most.

A bias has a sign that an RMS does not show: truncation toward zero has twice the RMS error of rounding to nearest, and
all of its errors point one way. Errors are taken in units in the last place, cut off at one, and averaged with the sign
of the ideal value (toward zero, away from it) and without it (down, up).

Elements whose ideal value is zero to float64 have no digits to lose: they count in the whole leaf only. What fills
masked places, such as -1e30, does not count at all.

A literal is rounded to its dtype when its program is traced, and no operation of the program is to blame for that.
Where formulas are the same but for such roundings, what these move the exact result by is not the variant's error as
long as it is at most one unit in the last place of the output: a factor that is off by half a unit of the same dtype
moves no result further. What they move by more than that counts in full, as in a float32 result of a bfloat16 constant.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from samebits.interpret.rounding_error.step_bounds import NarrowSum
from samebits.numerics.fills import fills

# The arrays that are measured of one leaf on one input.
Array = NDArray[Any]


class LeafSample(NamedTuple):
    """One leaf on one input: both sides as they are, the oracle, and the variant in float64; all of one shape.

    The bounds are of the operations of each side, where they were interpreted. `noise` gives how far float64 takes
    two equal formulas apart, None where that is not known. `floor` is an error of the reference that counts as none,
    where the oracle is zero except for rounding. `narrow_sums` are the longest of either side in a
    narrow type.
    """

    reference: Array
    variant: Array
    oracle: Array
    wide: Array
    bound: Array | None = None
    own_bound: Array | None = None
    noise: Callable[[], Array | None] | None = None
    floor: Array | None = None
    narrow_sums: tuple[NarrowSum, NarrowSum] | None = None


WHOLE = "the whole leaf"
LARGEST = "the largest error"
BINADES = (0, 4, 8, 16)
"""Where the classes of magnitude begin, in binades below the largest value of the leaf."""
FEWEST = 8
"""Fewer elements are not a group: their ratio is noise."""
FEWEST_BIASED = 16
UNBIASED = 0.15
"""Bias that counts as zero, in units in the last place; twice that is detected.

Rounding to nearest has 0 (of 16 elements, a standard error of 0.07); truncation has 0.5.
"""
NOTHING = 1e-12
"""What is zero beside the largest value in float64."""
BIASES = ("rounded toward zero or away from it", "rounded down or up")


def is_natural(name: str) -> bool:
    """Return whether the elements of a group are together by the program, unlike a few beside large ones."""
    return name in (WHOLE, LARGEST) or name.startswith("rows")


class ErrorRatio(NamedTuple):
    """One group in one draw.

    Args:
        value: the variant's error over the reference's; for a bias with its sign.
        elements: how many there are in the group.
        bias: of a bias, the variant's in units in the last place.
    """

    value: float
    elements: int
    bias: float | None = None


def error_ratios(reference: Array, variant: Array, ideal: Array, floor: Array | None = None) -> dict[str, ErrorRatio]:
    """Return both sides against the ideal value, by the name of the group; empty where nothing is finite.

    Args:
        reference, variant: in the dtype of the output.
        ideal: in float64.
        floor: positive where the ideal value is zero but for rounding: an error of the reference that counts as none.
    """
    info = ml_dtypes.finfo(reference.dtype)
    ref, var, true = (np.asarray(array, np.float64) for array in (reference, variant, ideal))
    if np.any((np.isinf(ref) | np.isinf(var)) & (ref != var)):
        return {WHOLE: ErrorRatio(np.inf, ref.size)}
    usable = _usable(ref, var, true)
    if not usable.any():
        return {}
    ref, var, true = (np.where(usable, array, 0) for array in (ref, var, true))
    unit = unit_of(true, info)
    none = np.zeros(true.shape) if floor is None else floor
    errors = _Errors(ref - true, var - true, np.maximum(unit, 2 * none), true, usable)
    ratios = {WHOLE: errors.ratio(usable), LARGEST: errors.largest()}
    digits = usable & (np.abs(true) > NOTHING * np.abs(true).max()) & (none == 0)
    errors = errors._replace(usable=digits)
    for name, chosen in _classes(true, digits):
        ratios[name] = errors.ratio(chosen)
    if true.ndim > 1:
        ratios.update(_rows(errors))
    for name, ratio in _slices(errors):
        ratios[name] = ratio
    ratios.update(_biases(errors, digits, WHOLE))
    return {name: ratio for name, ratio in ratios.items() if ratio.elements}


def _usable(ref: Array, var: Array, true: Array) -> Array:
    """Return which elements count: finite ones, less those that fill masked places.

    Beside a number such as -1e30 no other one would have digits to lose.
    """
    usable = np.isfinite(ref) & np.isfinite(var) & np.isfinite(true)
    return np.asarray(usable & ~fills(ref, var, usable))


def without_constants(variant: Array, ideal: Array, own: Array) -> tuple[Array, float]:
    """Return the results of a variant less what the rounding of constants alone moves them by, up to one unit each.

    Args:
        variant: in the dtype of the output.
        ideal, own: the reference and the variant in float64, which are the same formula but for these roundings.

    Returns:
        The results in float64, and how far the constants move an element at most, in units in the last place.
    """
    true, moved = np.asarray(ideal, np.float64), np.zeros(np.shape(ideal))
    with np.errstate(invalid="ignore"):  # of two infinities
        np.subtract(own, true, out=moved, where=np.isfinite(own) & np.isfinite(true))
    units = np.abs(moved) / unit_of(np.nan_to_num(true), ml_dtypes.finfo(variant.dtype))
    return np.asarray(variant, np.float64) - np.where(units <= 1, moved, 0), float(np.max(units, initial=0.0))


def unit_of(true: Array, info: Any) -> Array:
    """Return a unit in the last place at each magnitude; what is below the normal numbers may be flushed to zero."""
    tiny = float(info.smallest_normal)
    _, exponent = np.frexp(np.maximum(np.abs(true), tiny))
    unit: Array = np.where(np.abs(true) < tiny, 2 * tiny, np.ldexp(float(info.eps), exponent - 1))
    return unit


class _Errors(NamedTuple):
    """The errors of both sides, the unit of rounding and the ideal value, elementwise; and which elements count."""

    ref: Array
    var: Array
    unit: Array
    true: Array
    usable: Array

    def ratio(self, chosen: Array) -> ErrorRatio:
        """Return the ratio of the RMS errors of some elements."""
        if not chosen.any():
            return ErrorRatio(0.0, 0)
        squares = (np.mean(np.square(array[chosen])) for array in (self.ref, self.var, self.unit))
        return ErrorRatio(float(_over(*squares)), int(chosen.sum()))

    def largest(self) -> ErrorRatio:
        """Return the ratio of the largest errors, for the few among many."""
        ref, var = (float(np.abs(array[self.usable]).max()) for array in (self.ref, self.var))
        half = float(self.unit[self.usable].max()) / 2
        return ErrorRatio(var / max(ref, half), 1)


def _over(ref: Any, var: Any, unit: Any) -> Any:
    """Return the ratio of two RMS errors from their squares, the reference's at least that of rounding."""
    return np.sqrt(var / np.maximum(ref, unit / 12))


def _classes(true: Array, digits: Array) -> Iterator[tuple[str, Array]]:
    """Yield elements by their magnitude relative to the largest."""
    below = _binades_below(np.abs(true))
    for number, low in enumerate(BINADES):
        high = BINADES[number + 1] if number + 1 < len(BINADES) else np.inf
        chosen = digits & (below >= low) & (below < high)
        if chosen.sum() >= FEWEST and not (low == 0 and chosen.sum() == digits.sum()):
            yield f"elements {_said(low, high)}", chosen


def _rows(errors: _Errors) -> dict[str, ErrorRatio]:
    """Yield rows along the last dimension, each by its own size, and in classes of it."""
    shape = (-1, errors.true.shape[-1])
    squares = [
        np.sum(np.square(array.reshape(shape)), axis=1, where=errors.usable.reshape(shape))
        for array in (errors.ref, errors.var, errors.unit, errors.true)
    ]
    count, kept, below = _row_sizes(errors.true, errors.usable)
    ref, var, unit, size = (square[kept] for square in squares)
    if kept.sum() < 2:
        return {}
    ratios = {}
    for number, low in enumerate(BINADES):
        high = BINADES[number + 1] if number + 1 < len(BINADES) else np.inf
        chosen = (below >= low) & (below < high)
        elements = int(count[kept][chosen].sum())
        if elements >= FEWEST:
            each = (np.mean(square[chosen] / size[chosen]) for square in (ref, var, unit))
            ratios[_rows_said(low, high)] = ErrorRatio(float(_over(*each)), elements)
    return ratios


def _row_sizes(true: Array, usable: Array) -> tuple[Array, Array, Array]:
    """Return how many elements of each last-dimension row count, which rows do, and of these the binades below."""
    shape = (-1, true.shape[-1])
    count = usable.reshape(shape).sum(axis=1)
    size = np.sum(np.square(true.reshape(shape)), axis=1, where=usable.reshape(shape))
    kept = (count >= min(FEWEST, shape[1])) & (size > 0)
    return count, kept, _binades_below(np.sqrt(size[kept] / count[kept]))


def _slices(errors: _Errors) -> Iterator[tuple[str, ErrorRatio]]:
    """Yield every slice along every dimension, and its eighths: shards, last rows, single columns."""
    shape = errors.true.shape
    for axis, length in enumerate(shape):
        others = tuple(other for other in range(len(shape)) if other != axis)
        count = np.sum(errors.usable, axis=others)
        sums = [
            np.sum(np.square(array), axis=others, where=errors.usable)
            for array in (errors.ref, errors.var, errors.unit)
        ]
        for step in _steps(shape, axis):
            starts = np.arange(0, length, step)
            counts = np.add.reduceat(count, starts)
            ref, var, unit = (np.add.reduceat(summands, starts) for summands in sums)
            with np.errstate(all="ignore"):
                values = _over(ref, var, unit)
            for start, value, number in zip(starts, values, counts, strict=True):
                if number >= FEWEST:
                    yield _place(axis, int(start), step, length), ErrorRatio(float(value), int(number))


def _steps(shape: tuple[int, ...], axis: int) -> Iterator[int]:
    """Yield how many indices of a dimension a slice has: as few as make a group, and an eighth of all."""
    length = shape[axis]
    each = math.prod(shape) // max(length, 1)
    for step in sorted({max(1, -(-FEWEST // max(each, 1))), -(-length // 8)}):
        if step < length:
            yield step


def _place(axis: int, start: int, step: int, length: int) -> str:
    end = min(start + step, length)
    return f"dimension {axis}, index {start}" if step == 1 else f"dimension {axis}, indices {start} to {end - 1}"


def _biases(errors: _Errors, chosen: Array, where: str) -> dict[str, ErrorRatio]:
    """Return the mean of the signed errors in units in the last place, over twice what counts as zero."""
    if chosen.sum() < FEWEST_BIASED:
        return {}
    ratios = {}
    ref, var = (np.clip(array[chosen] / errors.unit[chosen], -1, 1) for array in (errors.ref, errors.var))
    signs: tuple[Array, ...] = (np.sign(errors.true[chosen]), np.ones(1))
    for name, sign in zip(BIASES, signs, strict=True):
        base, bias = max(abs(float(np.mean(ref * sign))), UNBIASED), float(np.mean(var * sign))
        ratios[f"{where}, {name}"] = ErrorRatio(bias / base, int(chosen.sum()), bias)
    return ratios


def _binades_below(size: Array) -> Array:
    """Return how many binades each is below the largest; what is zero is infinitely many."""
    with np.errstate(divide="ignore", invalid="ignore"):
        below: Array = np.floor(np.log2(np.max(size, initial=0)) - np.log2(size))
        return below


def _said(low: int, high: float) -> str:
    return f"below 2^-{low} of the largest" if np.isinf(high) else f"from 2^-{high:.0f} to 2^-{low} of the largest"


def _rows_said(low: int, high: float) -> str:
    return f"rows {_said(low, high)}, each by its own size"


def errors_in(group: str, sign: float, reference: Array, variant: Array, ideal: Array) -> Array:
    """Return the variant's error in each element of a group, as the group measures it; minus infinity in all others.

    Args:
        group: a name that `error_ratios` gave.
        sign: of the bias, for a group that is one.
        reference, variant, ideal: as for `error_ratios`.
    """
    info = ml_dtypes.finfo(reference.dtype)
    ref, var, true = (np.asarray(array, np.float64) for array in (reference, variant, ideal))
    usable = _usable(ref, var, true)
    var, true = (np.where(usable, array, 0) for array in (var, true))
    error, unit = np.abs(var - true), unit_of(true, info)
    digits = usable & (np.abs(true) > NOTHING * np.abs(true).max(initial=0))
    chosen, weighed = usable, error
    if group.endswith(BIASES):
        toward = np.sign(true) if group.endswith(BIASES[0]) else np.ones(())
        chosen, weighed = digits, sign * toward * (var - true) / unit
    elif group not in (WHOLE, LARGEST):
        chosen = next((members for name, members in _members(true, digits) if name == group), usable)
        weighed = error if group.startswith("dimension") else error / unit
    return np.where(chosen, weighed, -np.inf)


def _members(true: Array, digits: Array) -> Iterator[tuple[str, Array]]:
    """Yield the elements of each group that is a part of the leaf."""
    yield from _classes(true, digits)
    if true.ndim > 1:
        _, kept, below = _row_sizes(true, digits)
        for number, low in enumerate(BINADES):
            high = BINADES[number + 1] if number + 1 < len(BINADES) else np.inf
            rows = np.zeros(kept.shape, bool)
            rows[kept] = (below >= low) & (below < high)
            yield _rows_said(low, high), digits & rows.reshape(*true.shape[:-1], 1)
    for axis, length in enumerate(true.shape):
        for step in _steps(true.shape, axis):
            index = np.arange(length) // step
            for number in range(index[-1] + 1):
                along = (index == number).reshape([-1 if other == axis else 1 for other in range(true.ndim)])
                yield _place(axis, number * step, step, length), digits & along
