"""Is a difference rounding? What the proofs and the float64 walks say of one leaf, in numbers.

1. *Identity*: both sides compute the same formula, shown over finite fields (`interpret.identity`); where these cannot
   tell, both sides are executed in float64 and at three precisions (`ladder`): rounding shrinks with the precision, a
   fault of logic does not.
2. *Error ratio*: with the float64 reference as the oracle, how many times larger the variant's error is than the
   reference's. A variant may be more accurate than its reference; it may not be much less so.
3. *Bound*: no element differs by more than rounding in the operations of both sides explains.

Source: the ratio is FlashAttention's test rule (Dao et al., 2022, error at most twice that of the plain form), held
against a float64 oracle; the bound is a running error analysis (Higham, Accuracy and Stability of Numerical Algorithms,
2nd ed., section 3.3), computed from the inputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

IDENTITY = 1e-12
"""Largest difference of the sides in float64, relative to the largest value of the leaf.

Noise below it: sums of up to 1e4 float64 terms, about 1e-14. Nearest fault above: an epsilon changed by 1e-9.
"""

Array = NDArray[Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Evidence:
    """The measurements of one leaf.

    Args:
        identity: difference of the sides in float64, relative to the leaf's largest value.
        error_ratio: the variant's error over the reference's, the larger of the maximum's and the RMS's ratio.
        error_reference, error_optimized: largest errors against the oracle, relative to the leaf's largest value.
        log2_error: the base-two logarithm of the probability that the identity over finite fields is an accident; None
            where it was not shown there.
        refuted: the witness that the formulas are not the same, in words.
        bound: what rounding in the operations of both sides explains at most, relative to the leaf's largest value.
        bound_used: the difference of the sides over that bound, the largest of all elements.
        outside: the side that is farther from its own float64 value than its own operations explain.
        loses_most: the operation of the variant with the largest local error.
        unproved: why the fields could not tell.
        ladder: what the precision ladder says against rounding.
        constants: which constants are roundings of others, where the formulas are equal but for these.
    """

    identity: float
    error_ratio: float
    error_reference: float
    error_optimized: float
    log2_error: float | None = None
    refuted: str | None = None
    bound: float | None = None
    bound_used: float | None = None
    outside: str | None = None
    loses_most: str | None = None
    unproved: str | None = None
    ladder: str | None = None
    constants: tuple[str, ...] = ()

    def is_rounding(self, limit: float) -> bool:
        """Whether all of it says rounding."""
        return self._objection(limit) is None

    def sentence(self, limit: float) -> str:
        """The measurements in words."""
        against, named = self._objection(limit), "".join(f"; {one}" for one in self.constants)
        if against is not None:
            return against + named
        if self.log2_error is not None:
            same = f"the same formulas (error probability 2^{self.log2_error:.0f})"
        else:
            same = f"equal in float64 to {self.identity:.1g}"
        ratio = f"error against the float64 oracle {self.error_ratio:.2g}x the reference's (limit {limit:g})"
        bound = "" if self.bound_used is None else f"; {self.bound_used:.2g} of the rounding bound used"
        why = "" if self.unproved is None else f"; not proved: {self.unproved}"
        return f"{same}{named}; {ratio}{bound}{why}"

    def _objection(self, limit: float) -> str | None:
        if self.refuted is not None:
            return f"not the same mathematics: {self.refuted}"
        if self.log2_error is None and self.identity > IDENTITY:
            return (
                f"not rounding: in float64 the sides still differ by {self.identity:.2g} of the largest value "
                f"(limit {IDENTITY:g}); rounding would shrink with the precision"
            )
        if self.ladder is not None:
            return f"not rounding: {self.ladder}"
        lost = "" if self.loses_most is None else f"; most is lost by {self.loses_most}"
        if self.error_ratio > limit:
            ratio = f"error against the float64 oracle {self.error_ratio:.2g}x the reference's (limit {limit:g})"
            return f"loses accuracy: {ratio}{lost}"
        if self.outside is not None or (self.bound_used is not None and self.bound_used > 1):
            who = f", {self.outside} by itself" if self.outside else ""
            return f"loses accuracy: outside the bound of what rounding explains{who}{lost}"
        return None


class Sample(NamedTuple):
    """One leaf on one input: both sides as they are, the oracle, and the variant in float64; all of one shape.

    The bounds are those of each side's own operations, where they were walked.
    """

    reference: Array
    variant: Array
    oracle: Array
    wide: Array
    bound: Array | None = None
    own_bound: Array | None = None


class _Measured(NamedTuple):
    identity: float
    ratio: float
    errors: tuple[float, float]
    bound: float | None = None
    used: float | None = None
    own: tuple[float, float] = (0.0, 0.0)


def gather_evidence(inputs: Mapping[str, Sample], **known: Any) -> Evidence:
    """Measure one leaf over all inputs.

    Args:
        inputs: the samples by input label.
        known: what else is known of the leaf, as `Evidence` names it.

    Returns:
        The largest of each measurement over the inputs.
    """
    all_of = [_measure(sample) for sample in inputs.values()]
    bounds = [one.bound for one in all_of if one.bound is not None]
    used = [one.used for one in all_of if one.used is not None]
    own = [max(one.own[side] for one in all_of) for side in (0, 1)]
    return Evidence(
        identity=max(one.identity for one in all_of),
        error_ratio=max(one.ratio for one in all_of),
        error_reference=max(one.errors[0] for one in all_of),
        error_optimized=max(one.errors[1] for one in all_of),
        bound=max(bounds) if bounds else None,
        bound_used=max(used) if used else None,
        outside="the reference" if own[0] > 1 else "the variant" if own[1] > 1 else None,
        **known,
    )


def _measure(sample: Sample) -> _Measured:
    # Half an ulp of the largest (or the RMS) value: an error that rounding the exact result alone would make.
    half_ulp = float(ml_dtypes.finfo(sample.reference.dtype).eps) / 2
    ref, var, true, own = (np.asarray(array, np.float64) for array in sample[:4])
    if np.any((np.isinf(ref) | np.isinf(var)) & (ref != var)):
        # One side is infinite and the other is not, or of the other sign: no rounding does that.
        return _Measured(np.inf, np.inf, (0.0, np.inf))
    usable = np.isfinite(ref) & np.isfinite(var) & np.isfinite(true)
    if not usable.any():
        return _Measured(0.0, 0.0, (0.0, 0.0))
    bounds = [np.asarray(bound)[usable] for bound in sample[4:] if bound is not None]
    ref, var, true, own = (array[usable] for array in (ref, var, true, own))
    largest = float(np.abs(true).max())
    if not np.isfinite(own).all():
        identity = float("inf")
    elif largest == 0:
        identity = 0.0 if not own.any() else float("inf")
    else:
        identity = float(np.abs(own - true).max()) / largest
    errors = [(float(np.abs(side - true).max()), float(np.sqrt(np.mean((side - true) ** 2)))) for side in (ref, var)]
    floors = (half_ulp * largest, half_ulp * float(np.sqrt(np.mean(true**2))))
    ratios = []
    for e_ref, e_var, floor in zip(errors[0], errors[1], floors, strict=True):
        base = max(e_ref, floor)
        ratios.append(e_var / base if base else (0.0 if e_var == 0 else float("inf")))
    scale = largest or 1.0
    found = _Measured(identity, max(ratios), (errors[0][0] / scale, errors[1][0] / scale))
    if len(bounds) < 2:
        return found
    # A compiler may flush what is below the smallest normal number to zero anywhere, where data only moves too.
    flushed = float(ml_dtypes.finfo(sample.reference.dtype).smallest_normal)
    bounds = [bound + flushed for bound in bounds]
    # The sides are apart in float64 where constants were rounded; what that costs the error ratio says.
    both = bounds[0] + bounds[1] + np.abs(own - true)
    finite = both[np.isfinite(both)]
    return found._replace(
        bound=float(finite.max()) / scale if finite.size else None,
        used=_over(np.abs(var - ref), both),
        own=(_over(np.abs(ref - true), bounds[0]), _over(np.abs(var - own), bounds[1])),
    )


def _over(error: Array, bound: Array) -> float:
    """The largest quotient; nothing over nothing is nothing, and a bound that is not finite bounds nothing."""
    quotient = np.divide(error, bound, out=np.where(error > 0, np.inf, 0.0), where=bound > 0)
    return float(np.max(np.where(np.isfinite(bound), quotient, 0.0), initial=0.0))
