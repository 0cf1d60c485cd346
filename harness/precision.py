"""Is a difference rounding? Two measurements in float64 that decide without a tolerance set by hand.

1. *Identity*: both sides run in float64 on the same numbers. Rounding shrinks with the precision, a fault of logic
   does not: an epsilon of 1e-5 for 1e-6 is invisible in bfloat16 and differs by 1e-6 in float64.
2. *Error ratio*: with the float64 reference as the oracle, how many times larger the variant's error is than the
   reference's. A variant may be more accurate than its reference; it may not be much less so.

Source: the ratio is FlashAttention's test rule (Dao et al., 2022, error at most twice that of the plain form), held
against a float64 oracle; the precision ladder is the usual argument of numerical analysis (Higham, Accuracy and
Stability of Numerical Algorithms, 2nd ed., section 1.20, on computing in higher precision to judge an algorithm).
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
    """The two measurements of one leaf.

    Args:
        identity: difference of the sides in float64, relative to the leaf's largest value.
        error_ratio: the variant's error over the reference's, the larger of the maximum's and the RMS's ratio.
        error_reference, error_optimized: largest errors against the oracle, relative to the leaf's largest value.
    """

    identity: float
    error_ratio: float
    error_reference: float
    error_optimized: float

    def is_rounding(self, limit: float) -> bool:
        """Whether both measurements say rounding."""
        return self.identity <= IDENTITY and self.error_ratio <= limit

    def sentence(self, limit: float) -> str:
        """The measurements in words."""
        if self.identity > IDENTITY:
            return (
                f"not rounding: in float64 the sides still differ by {self.identity:.2g} of the largest value "
                f"(limit {IDENTITY:g}); rounding would shrink with the precision"
            )
        ratio = f"error against the float64 oracle {self.error_ratio:.2g}x the reference's (limit {limit:g})"
        if self.error_ratio > limit:
            return f"loses accuracy: {ratio}"
        return f"equal in float64 to {self.identity:.1g}; {ratio}"


class Sample(NamedTuple):
    """One leaf on one input: both sides as they are, the oracle, and the variant in float64; all of one shape."""

    reference: Array
    variant: Array
    oracle: Array
    wide: Array


def gather_evidence(inputs: Mapping[str, Sample]) -> Evidence:
    """Measure one leaf over all inputs.

    Args:
        inputs: the samples by input label.

    Returns:
        The largest identity error and error ratio over the inputs.
    """
    worst = [_measure(sample) for sample in inputs.values()]
    return Evidence(
        identity=max(e.identity for e in worst),
        error_ratio=max(e.error_ratio for e in worst),
        error_reference=max(e.error_reference for e in worst),
        error_optimized=max(e.error_optimized for e in worst),
    )


def _measure(sample: Sample) -> Evidence:
    # Half an ulp of the largest (or the RMS) value: an error that rounding the exact result alone would make.
    half_ulp = float(ml_dtypes.finfo(sample.reference.dtype).eps) / 2
    ref, var, true, own = (array.astype(np.float64) for array in sample)
    if np.any((np.isinf(ref) | np.isinf(var)) & (ref != var)):
        # One side is infinite and the other is not, or of the other sign: no rounding does that.
        return Evidence(identity=np.inf, error_ratio=np.inf, error_reference=0.0, error_optimized=np.inf)
    usable = np.isfinite(ref) & np.isfinite(var) & np.isfinite(true)
    if not usable.any():
        return Evidence(identity=0.0, error_ratio=0.0, error_reference=0.0, error_optimized=0.0)
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
    return Evidence(
        identity=identity,
        error_ratio=max(ratios),
        error_reference=errors[0][0] / scale,
        error_optimized=errors[1][0] / scale,
    )
