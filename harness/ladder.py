"""The precision ladder: both sides run at three precisions, and the difference must shrink as rounding does.

The second opinion where a program cannot be walked, as inside a Pallas kernel. A fault of logic, such as another
epsilon, hides behind the rounding of bfloat16 and stays what it is when that goes away.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from harness.outcome import Seen

SLOPE = 0.8
"""Rounding errors shrink with the unit roundoff to a power of at least this.

Noise above it: sums of 300 terms in two orders, 0.97 to 1.01. Nearest fault below: an epsilon of 1e-5 for 1e-6, 0.61.
"""

LAST = 1e-12
"""What may be left in float64, relative to the largest value."""


@dataclass(frozen=True, slots=True)
class Rungs:
    """The difference of the sides at each precision, relative to the largest value of the reference."""

    bfloat16: float
    float32: float
    float64: float

    @property
    def slope(self) -> float:
        """By which power of the unit roundoff the difference shrinks from bfloat16 to float32; infinite if gone."""
        if self.float32 == 0:
            return math.inf
        first, second = (float(ml_dtypes.finfo(dtype).eps) / 2 for dtype in (ml_dtypes.bfloat16, np.float32))
        # What bfloat16 rounds away counts as the half ulp that hides it.
        return math.log(max(self.bfloat16, first) / self.float32) / math.log(first / second)

    @property
    def objection(self) -> str | None:
        """What speaks against rounding, in words."""
        if self.float64 > LAST:
            return f"in float64 the sides still differ by {self.float64:.2g} of the largest value (limit {LAST:g})"
        if self.slope < SLOPE:
            return (
                f"from bfloat16 to float32 the difference shrinks from {self.bfloat16:.2g} to {self.float32:.2g}, "
                f"with a slope of {self.slope:.2f} (at least {SLOPE:g} where it is rounding)"
            )
        return None


def rungs(both: Mapping[str, tuple[Seen, Seen]], path: str) -> Rungs:
    """Measure one leaf.

    Args:
        both: by dtype, what the reference and the variant gave.
        path: of the leaf.
    """
    return Rungs(*(max(_apart(*both[dtype], path), default=0.0) for dtype in ("bfloat16", "float32", "float64")))


def _apart(reference: Seen, variant: Seen, path: str) -> list[float]:
    found = []
    for label, tree in reference.trees.items():
        if label in variant.trees:
            first = tree.leaves[path].array.astype(np.float64)
            second = variant.trees[label].leaves[path].array.astype(np.float64)
            usable = np.isfinite(first) & np.isfinite(second)
            largest = float(np.max(np.abs(first), where=usable, initial=0.0))
            difference = float(np.max(np.abs(first - second), where=usable, initial=0.0))
            found.append(difference / largest if largest else float(difference > 0))
    return found
