"""Measurements by execution: where a program cannot be interpreted, both sides run in float64 and at three precisions.

In: the outputs of both sides of a point. Out: the `RoundingEvidence` of one leaf.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from samebits.check.execution import Execution, PendingPoint
from samebits.check.outcome import ProgramOutputs
from samebits.check.precision_ladder import LAST, PrecisionLadder, computes_wider, fixed_dtype, measure_ladder
from samebits.check.rounding import RoundingEvidence, gather_evidence
from samebits.check.sample import LeafSample
from samebits.errors import CouldNotRun
from samebits.interpret.rounding_error.domain import WIDE
from samebits.numerics import floats
from samebits.user_errors import one_line

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
        """The measurements of a leaf.

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
        """The difference of the sides in bfloat16, float32 and float64."""
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
        """The outputs of the reference alone and of the variant on the mesh, in the dtypes of the sites."""
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
    """Whether the noise of a sample explains all that differs in float64."""
    noise = None if sample.noise is None else sample.noise()
    return noise is not None and bool(np.all(np.abs(sample.oracle - sample.wide) <= noise))
