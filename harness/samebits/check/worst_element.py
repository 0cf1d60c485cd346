"""The element that shows an objection best: the one that violates it most.

Elements whose values are the same on both sides show nothing and are never chosen.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from samebits.check.error_groups import errors_in, unit_of
from samebits.check.sample import LeafSample

Array = NDArray[Any]
Place = tuple[str, tuple[int, ...]]


class Objection(NamedTuple):
    """What the measurements say against a leaf, the first that applies; where none does it is rounding.

    Args:
        mathematics: the formulas are not the same.
        lost: the input, the group of elements and the sign of its bias where accuracy is lost.
        outside: the side that is outside its own bound.
    """

    mathematics: bool
    lost: tuple[str, str, float] | None
    outside: str | None


def violating(why: Objection, inputs: Mapping[str, LeafSample]) -> Place | None:
    """The element that shows most what was measured.

    Another formula: where the sides differ most in float64, relative to what rounding explains. A loss of accuracy: the
    largest error in the group that loses. Outside the bound, and else: the largest error over its bound.

    Args:
        why: what the measurements say.
        inputs: the samples that they were made on, by input label.

    Returns:
        Its input and index; None where no values differ.
    """
    best: tuple[float, Place] | None = None
    for label, sample in inputs.items():
        if not why.mathematics and why.lost is not None and label != why.lost[0]:
            continue
        scores = _scores(why, sample)
        apart = _apart(np.asarray(sample.reference, np.float64), np.asarray(sample.variant, np.float64))
        scores = np.where(apart > 0, scores, -np.inf)
        if not scores.size or np.max(scores) == -np.inf:
            continue
        worst = float(np.max(scores))
        if best is None or worst > best[0]:
            at = np.unravel_index(int(np.argmax(scores >= _nearly(worst))), scores.shape)
            best = _beaten_by(worst), (label, tuple(int(coordinate) for coordinate in at))
    return None if best is None else best[1]


def _nearly(worst: float) -> float:
    """What is as bad as the worst: where a fault is everywhere, the first place shows it."""
    return worst - (0.01 * abs(worst) if np.isfinite(worst) else 0)


def _beaten_by(worst: float) -> float:
    """What another input must exceed to be worse."""
    return worst + (0.01 * abs(worst) if np.isfinite(worst) else 0)


def _scores(why: Objection, sample: LeafSample) -> Array:
    """How far each element of one input violates what was measured."""
    ref, var, true, own = (np.asarray(array, np.float64) for array in sample[:4])
    apart = _apart(ref, var)
    bounds = _bounds(sample)
    if why.mathematics:
        gap = _apart(true, own)
        gap = np.where(apart > 0, gap, 0)
        return _over(gap if gap.any() else apart, bounds[0] + bounds[1])
    if why.lost is not None:
        scores = errors_in(*why.lost[1:], sample.reference, sample.variant, sample.oracle)
        return np.where(np.isinf(apart), np.inf, scores)
    if why.outside == "the reference":
        return _over(_apart(ref, true), bounds[0])
    if why.outside == "the variant":
        return _over(_apart(var, own), bounds[1])
    with np.errstate(invalid="ignore"):  # of two infinities
        gap = np.abs(own - true)
    return _over(apart, bounds[0] + bounds[1] + np.where(np.isfinite(gap), gap, 0))


def _bounds(sample: LeafSample) -> tuple[Array, Array]:
    """The rounding bounds of both sides; where they were not interpreted, one unit in the last place."""
    info = ml_dtypes.finfo(sample.reference.dtype)
    if sample.bound is None or sample.own_bound is None:
        unit = unit_of(np.nan_to_num(np.asarray(sample.oracle, np.float64)), info) / 2
        return unit, unit
    flushed = float(info.smallest_normal)
    return np.asarray(sample.bound, np.float64) + flushed, np.asarray(sample.own_bound, np.float64) + flushed


def _apart(first: Array, second: Array) -> Array:
    """How far numbers are apart; infinitely where only one is finite, or both are infinities of other signs."""
    with np.errstate(all="ignore"):
        apart = np.abs(first - second)
    same = (first == second) | (np.isnan(first) & np.isnan(second))
    return np.where(same, 0.0, np.where(np.isnan(apart), np.inf, apart))


def _over(error: Array, bound: Array) -> Array:
    """Errors over their bounds; a bound that is not finite excuses all, unless none is finite."""
    if not np.isfinite(bound).any():
        return error
    with np.errstate(all="ignore"):
        return np.where(np.isfinite(bound), error / bound, np.where(np.isinf(error), np.inf, 0.0))
