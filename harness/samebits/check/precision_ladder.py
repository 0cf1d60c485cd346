"""The precision ladder: both sides run at three precisions, and the difference must shrink as rounding does.

The second opinion where a program cannot be interpreted, as inside a Pallas kernel. A fault of logic, such as another
epsilon, hides behind the rounding of bfloat16 and stays what it is when that goes away. A precision that a side does
not run in is left out. Where a program fixes a dtype of its own, float64 does not take its rounding away.

A slope is measured only between precisions in which both sides compute. Where one of them accumulates in float32
whatever narrower dtype it is given, what bfloat16 shows is the rounding of its outputs: half a unit, however many
roundings of float32 lie before it. From there to float32 the difference cannot shrink as the unit does, and the step
from float32 to float64, which takes those roundings away and no fault, decides alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from samebits.check.outcome import ProgramOutputs
from samebits.interpret.dead_code import live
from samebits.interpret.equation import Step
from samebits.interpret.inner_equations import float_results
from samebits.numerics import floats

SLOPE = 0.8
"""Rounding errors shrink with the unit roundoff to a power of at least this.

Noise above it: sums of 300 terms in two orders, 0.97 to 1.01. Nearest fault below: an epsilon of 1e-5 for 1e-6, 0.61.
"""

LAST = 1e-12
"""What may be left in float64, relative to the largest value."""

ROUNDINGS = 1e4
"""How many roundings of a fixed dtype may be left in float64: more of them is not rounding."""


@dataclass(frozen=True, slots=True)
class PrecisionLadder:
    """The difference of the sides at each precision, relative to the largest value of the reference; None: not run.

    Args:
        bfloat16, float32, float64: the differences.
        wider: a side computes in float32 where its inputs are bfloat16.
    """

    bfloat16: float | None
    float32: float | None
    float64: float
    wider: bool = False

    @property
    def slope(self) -> float:
        """By which power of the unit roundoff the difference shrinks from bfloat16 to float32; infinite if gone.

        What bfloat16 rounds away counts as the half ulp that hides it. Equal numbers in bfloat16 measure nothing, a
        program that computes in float32 whatever it is given has them: then the step to float64 counts as well. It is
        the only one where such a side is known to compute in float32.
        """
        if self.bfloat16 is None or self.float32 is None or self.float32 == 0:
            return math.inf
        kinds = (ml_dtypes.bfloat16, np.float32, np.float64)
        first, second, third = (float(ml_dtypes.finfo(kind).eps) / 2 for kind in kinds)
        slope = math.log(max(self.bfloat16, first) / self.float32) / math.log(first / second)
        if self.bfloat16 > 0 and not self.wider:
            return slope
        return max(slope, math.log(self.float32 / max(self.float64, third)) / math.log(second / third))

    @property
    def objection(self) -> str | None:
        """What speaks against rounding, in words."""
        if self.float64 > LAST:
            return f"in float64 the sides still differ by {self.float64:.2g} of the largest value (limit {LAST:g})"
        if self.slope < SLOPE:
            low, high = ("float32", "float64") if self.wider else ("bfloat16", "float32")
            return (
                f"from {low} to {high} the difference shrinks from {getattr(self, low):.2g} to "
                f"{getattr(self, high):.2g}, with a slope of {self.slope:.2f} (at least {SLOPE:g} where it is rounding)"
            )
        return None


def measure_ladder(
    both: Mapping[str, tuple[ProgramOutputs, ProgramOutputs]], path: str, wider: bool = False
) -> PrecisionLadder:
    """Measure one leaf.

    Args:
        both: by dtype, what the reference and the variant gave; float64 must be there.
        path: of the leaf.
        wider: a side computes in float32 where its inputs are bfloat16.
    """
    apart = {dtype: max(_apart(*outputs, path), default=0.0) for dtype, outputs in both.items()}
    return PrecisionLadder(apart.get("bfloat16"), apart.get("float32"), apart["float64"], wider)


def _apart(reference: ProgramOutputs, variant: ProgramOutputs, path: str) -> list[float]:
    differences = []
    for label, tree in reference.trees.items():
        if label in variant.trees:
            first = floats.parts(tree.leaves[path].array).astype(np.float64)
            second = floats.parts(variant.trees[label].leaves[path].array).astype(np.float64)
            usable = np.isfinite(first) & np.isfinite(second)
            largest = float(np.max(np.abs(first), where=usable, initial=0.0))
            with np.errstate(over="ignore"):  # the largest numbers of both signs are infinitely far apart
                apart = np.subtract(first, second, out=np.zeros_like(first), where=usable)
            difference = float(np.max(np.abs(apart), initial=0.0))
            differences.append(difference / largest if largest else float(difference > 0))
    return differences


@dataclass(frozen=True, slots=True)
class FixedDtype:
    """A dtype narrower than float64 in which a program computes whatever it is given.

    Args:
        dtype: its name.
        step: the first equation in it.
    """

    dtype: str
    step: Step

    @property
    def digits(self) -> int:
        """The binary digits of the dtype."""
        return _digits(self.dtype)

    def hides(self, apart: float) -> bool:
        """Whether roundings of this dtype can be what is left in float64."""
        unit = float(ml_dtypes.finfo(getattr(ml_dtypes, self.dtype, self.dtype)).eps) / 2
        return apart <= ROUNDINGS * unit

    @property
    def advice(self) -> str:
        """What makes the program follow the dtype of its inputs, and changes nothing where these are float32."""
        if self.dtype != "float32":  # of a coarser one it would change what float32 inputs give
            return ""
        return "; write jnp.promote_types(x.dtype, jnp.float32) for that dtype, x being a float input"

    def __str__(self) -> str:
        place = f" at {self.step.place}" if self.step.place else ""
        return f"{self.step.name} computes in {self.dtype}{place}, whatever it is given"


def fixed_dtype(program: Any) -> FixedDtype | None:
    """The narrowest dtype that a program traced for float64 computes in; None where that is float64."""
    results = [
        (floats.digits(kind), FixedDtype(kind.name, Step(eqn.primitive.name, eqn.params, (), (), eqn)))
        for kind, eqn in float_results(live(program).jaxpr)
    ]
    narrow = [pair for pair in results if pair[0] < floats.digits(np.dtype(np.float64))]
    return min(narrow, key=lambda pair: pair[0])[1] if narrow else None


def computes_wider(program: Any, dtype: str) -> bool:
    """Whether a program that was traced for a dtype has floats of more digits than it among its results."""
    return any(floats.digits(kind) > _digits(dtype) for kind, _ in float_results(live(program).jaxpr))


def _digits(dtype: str) -> int:
    return floats.digits(np.dtype(getattr(ml_dtypes, dtype, dtype)))
