"""Is a difference rounding? The proofs and measurements of one leaf, in numbers.

1. *Identity*: both sides compute the same formula, shown over finite fields (`interpret.identity`); where these cannot
   decide, both sides are executed in float64 and at three precisions (`ladder`): rounding shrinks with the precision, a
   fault of logic does not.
2. *Accuracy*: how many times larger the variant's error is than the reference's, both against the ideal value: the
   formula in float64, casts being identities. A variant may be more accurate than its reference; whether it is less so
   is a test over draws (`sequential`). Where only the rounding of constants takes the formulas apart, a variant is held
   against its own constants, as long as these move no element by more than a unit in the last place (`error_groups`).
3. *Bound*: no element differs by more than rounding in the operations of both sides explains.

Source: the ratio is FlashAttention's test rule (Dao et al., 2022, error at most twice that of the plain form), held
against a float64 oracle; the bound is a running error analysis (Higham, Accuracy and Stability of Numerical Algorithms,
2nd ed., section 3.3), computed from the inputs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from samebits.check.error_groups import (
    LARGEST,
    LeafSample,
    error_ratios,
    errors_in,
    is_natural,
    unit_of,
    without_constants,
)
from samebits.check.sequential_test import Accuracy, More, Ratios, accuracy_over, compare_accuracy, of_one_draw
from samebits.interpret.rounding_error.step_bounds import Blame
from samebits.schema.difference import Witness
from samebits.schema.finding import Errors

# Is a loss of accuracy one of kind? Else it is rounding, and its size is told.
TOLD = 2.0
"""A loss of this factor is told where no limit is set: the effect that the test over draws finds."""
GROWN = 1.5
"""A loss of this factor fails where it grows with a sum that the variant alone makes in a narrow type."""
GROSS, MOSTLY = 32.0, 0.75
GROSS_IN_PART = 1024.0
"""Of slices and magnitudes, whose sums may cancel on one side: honest forms have 60 times there, a part that is cast to
bfloat16 on its way 30 000 times.
"""
MANY = 14


def gross(first: Mapping[str, Ratios], further: Sequence[Mapping[str, Ratios]]) -> tuple[float, Accuracy]:
    """Return in what part of the draws a loss is gross, and the ratios of the group in which it mostly is.

    Args:
        first: the ratios of the first draw, by input; it chose the groups, and counts where there is no other.
        further: those of all others.
    """
    groups = dict(_groups(first, further))
    # What one cotangent alone pulls back is mostly zero: the ratio of the few elements that are not is noise.
    many = [where for where in groups if not where[0].endswith("one_hot cotangent")]
    limits = {where: GROSS if is_natural(where[1]) else GROSS_IN_PART for where in many or groups}
    share, _, where = max(
        (sum(value > limit for value in groups[where]) / len(groups[where]), median(groups[where]) / limit, where)
        for where, limit in limits.items()
    )
    known = {"group": f"{where[1]} (input '{where[0]}')", "where": (*where, 1.0), "fixed": not further}
    return share, accuracy_over(groups[where], lossy=True, limit=limits[where], **known)


def _groups(
    first: Mapping[str, Ratios], further: Sequence[Mapping[str, Ratios]]
) -> Iterator[tuple[tuple[str, str], list[float]]]:
    """Yield the ratios of each group of each input."""
    for label, ratios in first.items():
        for name in (name for name, ratio in ratios.items() if ratio.bias is None):
            values = [draw[label][name].value for draw in further if name in draw.get(label, {})]
            yield (label, name), values or [ratios[name].value / (1 if name == LARGEST else math.sqrt(3))]


def growing(sample: LeafSample) -> str | None:
    """Return the sum in a narrow type that the variant alone makes, in words; None where there is none."""
    if sample.narrow_sums is None:
        return None
    reference, variant = sample.narrow_sums
    if variant.step is None or variant.additions <= max(MANY, 2 * reference.additions):
        return None
    place = f" at {variant.step.place}" if variant.step.place else ""
    row = f"{variant.additions} additions in a row in {variant.step.output.dtype.name}"
    return f"{row}, up to {variant.step.name}{place}, beside {reference.additions or 'none'}: it grows with them"


IDENTITY = 1e-12
"""Largest difference of the sides in float64, relative to the largest value of the leaf.

Noise below it: sums of up to 1e4 float64 terms, about 1e-14. Nearest fault above: an epsilon changed by 1e-9.
"""

WRONG = 64.0
"""From how many times its bound on, what takes a side from its own float64 value is not rounding at all.

Nearest honest side: 1 by definition; the functions of a platform are a few units less exact than the bound takes them.
"""

NARROW = 2.0**-6
"""An error, relative to the largest value, that a narrower dtype than is written makes at most, as the bfloat16 of a
product of matrices on a TPU."""

COMPILER = "the compiled program is wrong"

SHRUNK = 0.01
"""The share of an element's difference that may remain in float64: rounding leaves by far less, a fault all of it."""

Array = NDArray[Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class RoundingEvidence:
    """The measurements of one leaf.

    Args:
        identity: difference of the sides in float64, relative to the leaf's largest value.
        beyond: the same, of elements that differ by more than float64 itself explains, or the rounding of constants.
        kept: the largest difference of an element, relative to the element, that does not shrink in float64.
        accuracy: whether the variant is less accurate than the reference, and over how many draws.
        error_reference, error_optimized: largest errors against the oracle, relative to the leaf's largest value.
        log2_error: the base-two logarithm of the probability that the identity over finite fields is an accident; None
            where it was not shown there.
        assumed: the kinds of what that proof assumes beyond shapes and rounding, in words.
        refuted: the witness that the formulas are not the same, in words.
        bound: what rounding in the operations of both sides explains at most, relative to the leaf's largest value.
        bound_used: the difference of the sides over that bound, the largest of all elements.
        outside: the side that is farther from its own float64 value than its own operations explain.
        excess: how many times as far.
        loses_most: the operation of the variant whose own error explains that of the witness.
        tie: the comparisons of equal numbers that the sides take otherwise, where that is the difference.
        unproved: why the fields could not decide.
        ladder: what the precision ladder says against rounding.
        constants: which constants are roundings of others, where the formulas are equal but for these.
        moved: how far these move an element of the exact result at most, in units in the last place.
        kind: why a loss of accuracy is more than rounding, where no limit is set.
        undecided: why the draws do not decide how much accuracy is lost.
        place: the element that shows what the measurements say most, with its input.
        witness: the same with both values.
        ideal: the oracle's array on the input of that element.
    """

    identity: float
    accuracy: Accuracy
    error_reference: float
    error_optimized: float
    beyond: float = 0.0
    kept: float = 0.0
    log2_error: float | None = None
    assumed: str = ""
    refuted: str | None = None
    bound: float | None = None
    bound_used: float | None = None
    outside: str | None = None
    excess: float = 0.0
    loses_most: Blame | None = None
    tie: str | None = None
    unproved: str | None = None
    ladder: str | None = None
    constants: tuple[str, ...] = ()
    moved: float = 0.0
    kind: str | None = None
    undecided: str | None = None
    place: tuple[str, tuple[int, ...]] | None = None
    witness: tuple[Witness, str] | None = None
    ideal: Array | None = None

    @property
    def error_ratio(self) -> float:
        """The variant's error over the reference's, the median over the draws."""
        return self.accuracy.ratio

    @property
    def errors(self) -> Errors:
        """Return the numbers that are published."""
        return Errors(
            error_reference=self.error_reference,
            error_optimized=self.error_optimized,
            error_ratio=self.error_ratio,
            error_ratio_low=self.accuracy.low,
            error_ratio_high=self.accuracy.high,
            draws=self.accuracy.draws,
            error_group=self.accuracy.group,
            bias=self.accuracy.bias,
            bound=self.bound,
            bound_used=self.bound_used,
        )

    @property
    def is_rounding(self) -> bool:
        """Whether all of it says rounding."""
        return self._objection() is None

    def sentence(self) -> str:
        """Return the measurements in words."""
        against, named = self._objection(), "".join(f"; {constant}" for constant in self.constants)
        if self.constants and against is None and self.moved <= 1:
            named += f"; the exact result moves by at most {self.moved:.2g} units in the last place by that"
        named += "" if self.tie is None else f"; a tie in {self.tie}, taken otherwise"
        if against is not None:
            return against + named
        if self.log2_error is not None:
            assumes = f"; assumes {self.assumed}" if self.assumed else ""
            same = f"the same formulas (error probability 2^{self.log2_error:.0f}{assumes})"
        else:
            same = f"equal in float64 to {self.identity:.1g}"
            if self.identity > IDENTITY:
                same = f"as far apart in float64 ({self.identity:.1g} of the largest value) as rounding explains"
        ratio = f"costs accuracy: {self.accuracy}" if self.accuracy.lossy else str(self.accuracy)
        ratio += f"; {self.undecided}" if self.undecided else ""
        bound = "" if self.bound_used is None else f"; {self.bound_used:.2g} of the rounding bound used"
        why = "" if self.unproved is None else f"; not proved: {self.unproved}"
        return f"{same}{named}; {ratio}{bound}{why}"

    def _objection(self) -> str | None:
        """Return what speaks against rounding: another formula, then a loss over draws, then a bound that is left."""
        against = self.mathematics
        if against is not None:
            return against
        lost = "" if self.loses_most is None else f"; most is lost by {self.loses_most}"
        if self.is_wrong:
            far = f"{self.excess:.2g} times as far from what is written, evaluated in float64, as rounding explains"
            if self.is_miscompiled:
                return f"{COMPILER}: {self.outside} is {far}{lost}"
            return f"not rounding: {self.outside} is {far}: {COMPILER}, or computes in fewer digits{lost}"
        if self.accuracy.lossy and (self.accuracy.is_set or self.kind):
            kind = "" if self.kind is None else f"; {self.kind}"
            return f"loses accuracy: {self.accuracy}{kind}{lost}"
        if self.is_outside:
            who = f", {self.outside} by itself" if self.outside else ""
            return f"loses accuracy: outside the bound of what rounding explains{who}{lost}"
        return None

    @property
    def is_miscompiled(self) -> bool:
        """Whether a side is farther from what is written than even operations of fewer digits would be."""
        far = max(self.error_reference, self.error_optimized) > NARROW
        return self.mathematics is None and self.is_wrong and far

    @property
    def mathematics(self) -> str | None:
        """What says that the formulas are not the same."""
        if self.refuted is not None:
            return f"not the same mathematics: {self.refuted}"
        if self.log2_error is None and self.beyond > IDENTITY:
            return (
                f"not rounding: in float64 the sides still differ by {self.beyond:.2g} of the largest value "
                f"(limit {IDENTITY:g}); rounding would shrink with the precision"
            )
        if self.log2_error is None and self.kept > IDENTITY:
            return (
                f"not rounding: an element differs by {self.kept:.2g} of itself, and no less in float64; "
                "rounding would shrink with the precision"
            )
        return None if self.ladder is None else f"not rounding: {self.ladder}"

    @property
    def is_same_in_float64(self) -> bool:
        """Whether the sides are apart in float64 by no more than its noise, as equal formulas are."""
        return bool(max(self.beyond, self.kept) <= IDENTITY)

    @property
    def is_wrong(self) -> bool:
        """Whether a side is so far from its own float64 value that the compiler must have changed what it computes."""
        return self.outside is not None and self.excess > WRONG

    @property
    def is_outside(self) -> bool:
        """Whether an element is farther off than its bound."""
        return self.outside is not None or (self.bound_used is not None and self.bound_used > 1)


class _Measured(NamedTuple):
    identity: float
    errors: tuple[float, float]
    beyond: float = 0.0
    bound: float | None = None
    used: float | None = None
    own: tuple[float, float] = (0.0, 0.0)
    kept: float = 0.0


def gather_evidence(
    inputs: Mapping[str, LeafSample],
    *,
    limit: float | None,
    more: More | None = None,
    own: bool = False,
    dependent: bool = False,
    brief: bool = False,
    **known: Any,
) -> RoundingEvidence:
    """Measure one leaf over all inputs of the first draw, and its accuracy over as many draws as it takes.

    Args:
        limit: how many times the reference's error is accepted; None accepts all but a loss of kind.
        more: gives further draws; without it one decides.
        own: the variant is held against its own constants, as where `constants` are known.
        dependent: the draws depend on each other, as the verdict is to say.
        brief: no further draws are made that cannot change the verdict, which they can where a limit is set, or where
            the first one is near a loss of kind.
        known: what else is known of the leaf, as `RoundingEvidence` names it.

    Returns:
        The largest of each measurement over the inputs.
    """
    all_of = [_measure(sample) for sample in inputs.values()]
    bounds = [measured.bound for measured in all_of if measured.bound is not None]
    used = [measured.used for measured in all_of if measured.used is not None]
    outside = [max(measured.own[side] for measured in all_of) for side in (0, 1)]
    first, moved = {}, [0.0]
    for label, sample in inputs.items():
        variant = sample.variant
        if own or known.get("constants"):
            variant, units = without_constants(variant, sample.oracle, sample.wide)
            moved.append(units)
        first[label] = error_ratios(sample.reference, variant, sample.oracle, sample.floor)
    known.update(
        moved=max(moved),
        identity=max(measured.identity for measured in all_of),
        beyond=max(measured.beyond for measured in all_of),
        kept=max(measured.kept for measured in all_of),
        error_reference=max(measured.errors[0] for measured in all_of),
        error_optimized=max(measured.errors[1] for measured in all_of),
        bound=max(bounds) if bounds else None,
        bound_used=max(used) if used else None,
        outside="the reference" if outside[0] > max(1, outside[1]) else "the variant" if outside[1] > 1 else None,
        excess=max(outside),
    )
    grows = None
    if limit is None and any(first.values()):
        grows = next(filter(None, map(growing, inputs.values())), None)
    least = limit or (GROWN if grows else TOLD)
    evidence = RoundingEvidence(accuracy=compare_accuracy(first, None, least), **known)
    if evidence.mathematics is None and not evidence.is_outside:
        draws: list[Mapping[str, Ratios]] = []
        if brief and limit is None and not (any(first.values()) and gross(first, ())[0]):
            evidence = replace(evidence, accuracy=of_one_draw(first, least))
        elif more is not None:
            evidence = replace(evidence, accuracy=compare_accuracy(first, more, least, draws))
        if limit is None:
            evidence = replace(evidence, kind=grows) if grows else _of_kind(evidence, first, draws[1:])
        else:
            evidence = _at_limit(evidence, dependent)
    evidence = replace(evidence, accuracy=replace(evidence.accuracy, dependent=dependent, is_set=limit is not None))
    lost = None if evidence.is_wrong else evidence.accuracy.where
    why = Objection(evidence.mathematics is not None, lost, evidence.outside)
    place = violating(why, inputs)
    return replace(evidence, place=place, ideal=None if place is None else np.asarray(inputs[place[0]].oracle))


def _of_kind(
    evidence: RoundingEvidence, first: Mapping[str, Ratios], further: Sequence[Mapping[str, Ratios]]
) -> RoundingEvidence:
    """Return the evidence where no limit is set, with why a loss is gross, or why that is not decided."""
    if not evidence.accuracy.lossy:
        return evidence
    share, accuracy = gross(first, further)
    if share >= MOSTLY:
        return replace(evidence, accuracy=accuracy, kind=f"more than {accuracy.limit:g}x fails where no limit is set")
    if share > 1 - MOSTLY:
        hangs = f"more than {accuracy.limit:g}x, which is not rounding, comes out in {share:.0%} of the draws"
        return replace(evidence, accuracy=accuracy, undecided=hangs)
    return evidence


def _at_limit(evidence: RoundingEvidence, dependent: bool) -> RoundingEvidence:
    """Return the evidence with why draws that vary one array do not decide whether a limit holds."""
    accuracy = evidence.accuracy
    if dependent and not accuracy.lossy and accuracy.ratio > accuracy.limit:
        return replace(evidence, undecided="the numbers given do not decide whether the limit is kept")
    return evidence


def _measure(sample: LeafSample) -> _Measured:
    ref, var, true, own = (np.asarray(array, np.float64) for array in sample[:4])
    if np.any((np.isinf(ref) | np.isinf(var)) & (ref != var)):
        # One side is infinite and the other is not, or of the other sign: no rounding does that.
        return _Measured(np.inf, (0.0, np.inf), np.inf)
    usable: Any = np.isfinite(ref) & np.isfinite(var) & np.isfinite(true)
    if not usable.any():
        return _Measured(0.0, (0.0, 0.0))
    if usable.all():
        usable = np.s_[...]  # which copies nothing
    bounds = [np.asarray(bound)[usable] for bound in sample[4:6] if bound is not None]
    ref, var, true, own = (array[usable] for array in (ref, var, true, own))
    largest = float(np.abs(true).max())
    identity = beyond = float("inf")
    if np.isfinite(own).all():
        identity = beyond = _relative(float(np.abs(own - true).max()), largest)
        if identity > IDENTITY and sample.noise is not None:
            beyond = _relative(_beyond(sample.noise(), usable, np.abs(own - true)), largest)
    kept = _kept(sample, usable, np.abs(var - ref), np.abs(own - true), np.maximum(np.abs(own), np.abs(true)))
    first, second = (float(np.abs(side - true).max()) for side in (ref, var))
    scale = largest or 1.0
    measured = _Measured(identity, (first / scale, second / scale), beyond, kept=kept)
    if len(bounds) < 2:
        return measured
    # A compiler may flush what is below the smallest normal number to zero anywhere, where data only moves too.
    flushed = float(ml_dtypes.finfo(sample.reference.dtype).smallest_normal)
    bounds = [bound + flushed for bound in bounds]
    # The sides are apart in float64 where constants were rounded; what that costs the error ratio says.
    both = bounds[0] + bounds[1] + np.abs(own - true)
    finite = both[np.isfinite(both)]
    return measured._replace(
        bound=float(finite.max()) / scale if finite.size else None,
        used=_largest_over(np.abs(var - ref), both),
        own=(_largest_over(np.abs(ref - true), bounds[0]), _largest_over(np.abs(var - own), bounds[1])),
    )


def _kept(sample: LeafSample, usable: Any, narrow: Array, wide: Array, size: Array) -> float:
    """Return the largest difference, relative to its own element, that float64 does not make smaller, nor explains.

    Relative to the largest value of the leaf, such as what masks the others, it may look like nothing.

    Args:
        usable: where it is finite.
        narrow, wide: how far the sides are apart there in the dtype of the leaf, and in float64.
    """
    if ml_dtypes.finfo(sample.reference.dtype).nmant > 32:  # a float64 leaf is as far apart in float64
        return 0.0
    left = (narrow > 0) & (wide > SHRUNK * narrow) & (wide > IDENTITY * size)
    if left.any() and sample.noise is not None:
        noise = sample.noise()
        if noise is not None:
            left &= ~(wide <= noise[usable])
    return float(np.max(np.divide(wide, size, where=left, out=np.zeros_like(wide)), initial=0.0))


def _relative(apart: float, largest: float) -> float:
    return apart / largest if largest else (0.0 if apart == 0 else float("inf"))


def _beyond(noise: Array | None, usable: Any, apart: Array) -> float:
    """Return the largest difference that is more than float64 makes; a bound that is not finite explains nothing."""
    own = np.zeros(apart.shape) if noise is None else noise[usable]
    return float(np.max(apart, where=(apart > own) | ~np.isfinite(own), initial=0.0))


def _largest_over(error: Array, bound: Array) -> float:
    """Return the largest quotient; nothing over nothing is nothing, and a bound that is not finite bounds nothing."""
    quotient = np.divide(error, bound, out=np.where(error > 0, np.inf, 0.0), where=bound > 0)
    return float(np.max(np.where(np.isfinite(bound), quotient, 0.0), initial=0.0))


# --- the element that shows an objection best: never one whose values are the same on both sides ---------------------

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
    """Return the element that shows most what was measured.

    Another formula: where the sides differ most in float64, relative to what rounding explains. A loss of accuracy: the
    largest error in the group that loses. Outside the bound, and else: the largest error over its bound.

    Args:
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
    """Return what is as bad as the worst: where a fault is everywhere, the first place shows it."""
    return worst - (0.01 * abs(worst) if np.isfinite(worst) else 0)


def _beaten_by(worst: float) -> float:
    """Return what another input must exceed to be worse."""
    return worst + (0.01 * abs(worst) if np.isfinite(worst) else 0)


def _scores(why: Objection, sample: LeafSample) -> Array:
    """Return how far each element of one input violates what was measured."""
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
    """Return the rounding bounds of both sides; where they were not interpreted, one unit in the last place."""
    info = ml_dtypes.finfo(sample.reference.dtype)
    if sample.bound is None or sample.own_bound is None:
        unit = unit_of(np.nan_to_num(np.asarray(sample.oracle, np.float64)), info) / 2
        return unit, unit
    flushed = float(info.smallest_normal)
    return np.asarray(sample.bound, np.float64) + flushed, np.asarray(sample.own_bound, np.float64) + flushed


def _apart(first: Array, second: Array) -> Array:
    """Return how far numbers are apart; infinitely where only one is finite, or both are infinities of other signs."""
    with np.errstate(all="ignore"):
        apart = np.abs(first - second)
    same = (first == second) | (np.isnan(first) & np.isnan(second))
    return np.where(same, 0.0, np.where(np.isnan(apart), np.inf, apart))


def _over(error: Array, bound: Array) -> Array:
    """Divide errors by their bounds; a bound that is not finite excuses all, unless none is finite."""
    if not np.isfinite(bound).any():
        return error
    with np.errstate(all="ignore"):
        return np.where(np.isfinite(bound), error / bound, np.where(np.isinf(error), np.inf, 0.0))
