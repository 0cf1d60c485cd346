"""Measures leaves of programs that cannot be interpreted: both sides run in float64 and at three precisions.

In: the outputs of both sides of a point. Out: the `RoundingEvidence` of one leaf.

The precision ladder: from precision to precision the difference must shrink as rounding does. A fault of logic, such as
another epsilon, hides behind the rounding of bfloat16 and stays what it is when that goes away. A precision that a side
does not run in is left out. Where a program fixes a dtype of its own, float64 does not take its rounding away.

A slope is measured only between precisions in which both sides compute. Where one of them accumulates in float32
whatever narrower dtype it is given, what bfloat16 shows is the rounding of its outputs: half a unit, however many
roundings of float32 lie before it. From there to float32 the difference cannot shrink as the unit does, and the step
from float32 to float64, which takes those roundings away and no fault, decides alone.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import ml_dtypes
import numpy as np

from samebits.check.execution import Execution, PendingPoint
from samebits.check.outcome import ProgramOutputs
from samebits.check.rounding import RoundingEvidence, gather_evidence
from samebits.check.sample import LeafSample
from samebits.errors import CouldNotRun
from samebits.interpret.dead_code import live
from samebits.interpret.equation import Step
from samebits.interpret.inner_equations import float_results
from samebits.interpret.rounding_error.domain import WIDE
from samebits.numerics import floats
from samebits.user_errors import one_line

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
        """Return whether roundings of this dtype can be what is left in float64."""
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
    """Return the narrowest dtype that a program traced for float64 computes in; None where that is float64."""
    results = [
        (floats.digits(kind), FixedDtype(kind.name, Step(eqn.primitive.name, eqn.params, (), (), eqn)))
        for kind, eqn in float_results(live(program).jaxpr)
    ]
    narrow = [pair for pair in results if pair[0] < floats.digits(np.dtype(np.float64))]
    return min(narrow, key=lambda pair: pair[0])[1] if narrow else None


def computes_wider(program: Any, dtype: str) -> bool:
    """Return whether a program that was traced for a dtype has floats of more digits than it among its results."""
    return any(floats.digits(kind) > _digits(dtype) for kind, _ in float_results(live(program).jaxpr))


def _digits(dtype: str) -> int:
    return floats.digits(np.dtype(getattr(ml_dtypes, dtype, dtype)))


FINER = 8
"""Binary digits that an ideal value must have beyond those of the output: float32 is one for bfloat16 and float16."""


class ExecutedEvidence:
    """Measures leaves of the points of one pair by executing both sides in float64.

    Args:
        execution: runs programs.
    """

    def __init__(self, execution: Execution) -> None:
        self.execution = execution

    def measure(
        self,
        job: PendingPoint,
        path: str,
        labels: Sequence[str],
        alone: ProgramOutputs,
        variant: ProgramOutputs,
        noise: Mapping[str, Callable[[], Any]] = MappingProxyType({}),
        **known: Any,
    ) -> RoundingEvidence:
        """Return the measurements of a leaf.

        Args:
            job: the point.
            path: the leaf.
            labels: the inputs on which bits differ.
            alone, variant: the outputs of the reference on one device and of the variant on the mesh.
            noise: by input, how far float64 and the rounding of constants take two equal formulas apart.
            known: further arguments of `gather_evidence`.

        Raises:
            CouldNotRun: a side does not run in float64, or a dtype fixed in the program hides the answer.
        """
        wide = replace(job, alone=replace(job.alone, x64=True), on_mesh=replace(job.on_mesh, x64=True))
        oracle, own = self._outputs(wide, labels)
        samples = {}
        for label in labels:
            first, second, ideal, wider = (
                floats.parts(outputs.trees[label].leaves[path].array) for outputs in (alone, variant, oracle, own)
            )
            samples[label] = LeafSample(first, second, ideal, wider, noise=noise.get(label))
        ladder = self._ladder(job, path, labels, oracle, own)
        if noise and all(map(_is_explained, samples.values())):
            ladder = replace(ladder, float64=0.0)
        if ladder.float64 > LAST:
            self._reject_fixed_dtype(wide, ladder.float64)
        evidence = gather_evidence(samples, **known, ladder=ladder.objection)
        if ladder.float64 <= LAST and (evidence.accuracy.lossy or not evidence.is_rounding):
            digits = floats.digits(floats.parts(next(iter(alone.trees.values())).leaves[path].array).dtype)
            self._reject_fixed_dtype(wide, ladder.float64, digits + FINER)
        _require_known_growth(evidence, samples)
        return evidence

    def _reject_fixed_dtype(self, wide: PendingPoint, apart: float, enough: int | None = None) -> None:
        """Raise where a side computes in a dtype narrower than float64 even if its inputs are float64.

        Args:
            wide: the point in float64.
            apart: the difference of the sides there, relative to the largest value.
            enough: binary digits that suffice for an ideal value; None where no narrower dtype suffices.

        Raises:
            CouldNotRun: rounding to that dtype can explain the difference, or there is no ideal value.
        """
        sides = (self.execution.pair.reference_name, wide.alone), (wide.point.variant, wide.on_mesh)
        for side, site in sides:
            narrow = fixed_dtype(self.execution.program(side, site, wide.point.direction).traced.jaxpr)
            if narrow is None or not narrow.hides(apart) or (enough is not None and narrow.digits >= enough):
                continue
            if enough is not None:
                raise CouldNotRun(
                    f"there is no value in float64 to hold errors against, as {narrow}: '{side}'{narrow.advice}"
                )
            raise CouldNotRun(
                f"in float64 the sides still differ by {apart:.2g} of the largest value, and {narrow}: '{side}'"
                f"{narrow.advice}"
            )

    def _ladder(
        self, job: PendingPoint, path: str, labels: Sequence[str], oracle: ProgramOutputs, own: ProgramOutputs
    ) -> PrecisionLadder:
        """Return the difference of the sides in bfloat16, float32 and float64."""
        apart, wider = {}, False
        for dtype in ("bfloat16", "float32"):
            site = replace(job.alone, dtype=dtype), replace(job.on_mesh, dtype=dtype)
            with contextlib.suppress(CouldNotRun):  # a side that rejects this dtype gives no information
                apart[dtype] = self._outputs(replace(job, alone=site[0], on_mesh=site[1]), labels)
                if dtype == "bfloat16":
                    sides = zip((self.execution.pair.reference_name, job.point.variant), site, strict=True)
                    programs = (self.execution.program(side, own_site, job.point.direction) for side, own_site in sides)
                    wider = any(computes_wider(program.traced.jaxpr, dtype) for program in programs)
        return measure_ladder({**apart, "float64": (oracle, own)}, path, wider)

    def _outputs(self, job: PendingPoint, labels: Sequence[str]) -> tuple[ProgramOutputs, ProgramOutputs]:
        """Return the outputs of the reference alone and of the variant on the mesh, in the dtypes of the sites."""
        import jax

        execution, direction = self.execution, job.point.direction
        programs = execution.sides.programs
        sides = (execution.pair.reference_name, job.alone), (job.point.variant, job.on_mesh)
        started = [programs.start(execution.program(side, site, direction)) for side, site in sides]
        try:
            first, second = (
                execution.run(program, side, site, direction, labels)
                for program, (side, site) in zip(started, sides, strict=True)
            )
        except jax.errors.JaxRuntimeError as error:  # for example a callback that rejects the dtype
            dtype = "float64" if job.alone.x64 else job.alone.dtype
            raise CouldNotRun(f"executed in {dtype}, it {one_line(error)}") from error
        return first, second


def _require_known_growth(evidence: RoundingEvidence, samples: Mapping[str, LeafSample]) -> None:
    """Raise where accuracy is lost in a narrow dtype, and no limit says whether that is too much.

    Raises:
        CouldNotRun: the sums of the programs are not read, which may be made in that dtype.
    """
    narrow = any(floats.digits(sample.reference.dtype) < WIDE for sample in samples.values())
    if evidence.is_rounding and evidence.accuracy.lossy and not evidence.accuracy.is_set and narrow:
        raise CouldNotRun(
            f"{evidence.accuracy}; whether that grows with the length of a sum cannot be read from programs that are "
            f"not interpreted ({evidence.unproved}): set accuracy= to how many times the error is accepted"
        )


def _is_explained(sample: LeafSample) -> bool:
    """Return whether the noise of a sample explains all that differs in float64."""
    noise = None if sample.noise is None else sample.noise()
    return noise is not None and bool(np.all(np.abs(sample.oracle - sample.wide) <= noise))
