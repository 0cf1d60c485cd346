"""Measures leaves whose bits differ, on their inputs and on further draws: is the difference rounding?

In: the outputs of both sides of a point. Out: the `RoundingEvidence` of one leaf. Both programs are interpreted in
float64 with error bounds. A program that cannot be interpreted, such as a Pallas kernel, is executed in float64 and at
three precisions instead (`executed_evidence`).
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any

import jax
import ml_dtypes
import numpy as np

from samebits.check.error_groups import LeafSample, error_ratios, without_constants
from samebits.check.execution import Execution, Inputs, PendingPoint
from samebits.check.outcome import ProgramOutputs
from samebits.check.point_proofs import PointProofs
from samebits.check.rounding import IDENTITY, RoundingEvidence, gather_evidence
from samebits.check.sequential_test import More, Ratios
from samebits.check.smaller_sizes import is_smaller
from samebits.errors import CouldNotRun, DeclarationError, NotCovered
from samebits.host.cache_keys import ByIdentity, digest_of
from samebits.host.isolation import note
from samebits.host.memory import GIB, gibibytes, total_memory
from samebits.interpret.dead_code import live
from samebits.interpret.equation import Array, Step
from samebits.interpret.field_proof.float64_noise import Excuses, IdealValue, floor_of, floored_values
from samebits.interpret.field_proof.proof import FieldIdentity
from samebits.interpret.field_proof.result import rounded_literals
from samebits.interpret.inner_equations import float_results, most_alive
from samebits.interpret.problem import Question
from samebits.interpret.rounding_error.domain import WIDE
from samebits.interpret.rounding_error.estimate import ErrorEstimate, estimate_errors, ideal_values, loses_most, tie
from samebits.numerics import floats
from samebits.numerics.bits import Comparison, same_bits, witness_at
from samebits.programs.inputs import keeps_places
from samebits.programs.program_cache import Program
from samebits.programs.sides import Site
from samebits.prove.prover import Prover, Unproved
from samebits.schema.contract import Direction
from samebits.schema.finding import where
from samebits.schema.values import Given
from samebits.user_errors import one_line

# Measures leaves of programs that cannot be interpreted: both sides run in float64 and at three precisions.
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
    """A dtype narrower than float64 in which a program computes whatever it is given."""

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
    """Measures leaves of the points of one pair by executing both sides in float64."""

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
            apart: the difference of the sides there, relative to the largest value.
            enough: binary digits that suffice for an ideal value; None where no narrower dtype suffices.

        Raises:
            CouldNotRun: rounding to that dtype can explain the difference, or there is no ideal value.
        """
        for side, site in self.execution.ends(wide):
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
            narrow = replace(job, alone=replace(job.alone, dtype=dtype), on_mesh=replace(job.on_mesh, dtype=dtype))
            with contextlib.suppress(CouldNotRun):  # a side that rejects this dtype gives no information
                apart[dtype] = self._outputs(narrow, labels)
                if dtype == "bfloat16":
                    ends, direction = self.execution.ends(narrow), job.point.direction
                    wider = any(
                        computes_wider(self.execution.program(*end, direction).traced.jaxpr, dtype) for end in ends
                    )
        return measure_ladder({**apart, "float64": (oracle, own)}, path, wider)

    def _outputs(self, job: PendingPoint, labels: Sequence[str]) -> tuple[ProgramOutputs, ProgramOutputs]:
        """Return the outputs of the reference alone and of the variant on the mesh, in the dtypes of the sites."""
        import jax

        execution, direction = self.execution, job.point.direction
        programs = execution.sides.programs
        sides = execution.ends(job)
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


CACHED = 512
"""How many ideal values are held, each for one program and input."""


class FurtherDraws:
    """Draws of the points of one pair.

    Args:
        platform: where they run, which decides how wide products of matrices are.
    """

    def __init__(self, execution: Execution, prover: Prover, platform: str) -> None:
        self.execution = execution
        self.prover = prover
        self.platform = platform
        self._depend: dict[tuple[str, str], bool] = {}
        self._ideals: dict[tuple[Program, str, bool], dict[str, IdealValue]] = {}

    def depend(self, job: PendingPoint) -> bool:
        """Return whether the draws of a point depend on each other, being variations of one array in its places."""
        key = job.point.case, job.point.mesh
        if key not in self._depend:
            args = self.execution.pair.arguments(job.alone.case, job.alone.mesh)
            self._depend[key] = any(isinstance(arg.values, Given) and keeps_places(arg.values) for arg in args.values())
        return self._depend[key]

    def ratios(self, job: PendingPoint, path: str, floored: Collection[str] = (), constants: bool = False) -> More:
        """Return what gives the error ratios of one leaf, draw by draw.

        Args:
            floored: the inputs at which numbers of the leaf are zero but for rounding.
            constants: the sides are the same formula but for the rounding of constants.
        """

        def more(draw: int, labels: Collection[str]) -> dict[str, Ratios] | None:
            drawn = replace(job, alone=replace(job.alone, draw=draw), on_mesh=replace(job.on_mesh, draw=draw))
            reference, direction = self.execution.pair.reference_name, job.point.direction
            try:
                inputs = self.execution.inputs(drawn.alone, reference, direction)
            except DeclarationError:  # this draw has equal rows, say; another will not
                return {}
            if _equal(inputs, self.execution.inputs(job.alone, reference, direction)):
                return None
            alone, variant = (
                self.execution.run(self._program(side, site, direction), side, site, direction, list(labels))
                for side, site in self.execution.ends(drawn)
            )
            ratios: dict[str, Ratios] = {}
            for label in (label for label in labels if label in inputs):
                ideal = self._ideal(drawn, label, inputs, label in floored)[path]
                first, second = (floats.parts(outputs.trees[label].leaves[path].array) for outputs in (alone, variant))
                if constants:
                    second, _ = without_constants(second, ideal.value, self._own(drawn, inputs[label])[path])
                ratios[label] = error_ratios(first, second, floats.parts(ideal.value), ideal.floor)
            return ratios

        return more

    def _ideal(self, job: PendingPoint, label: str, inputs: Inputs, floored: bool) -> dict[str, IdealValue]:
        """Return the ideal values of a point's leaves at one input: interpreted, or executed in float64."""
        record, cotangents = inputs[label]
        reference = self._program(self.execution.pair.reference_name, job.alone, job.point.direction)
        key = reference, digest_of([*record.values(), *cotangents.values()], *record, *cotangents), floored
        if key not in self._ideals:
            if len(self._ideals) >= CACHED:
                self._ideals.clear()
            self._ideals[key] = self._evaluate(job, label, inputs, floored)
        return self._ideals[key]

    def _own(self, job: PendingPoint, record: Any) -> dict[str, Array]:
        """Return the variant in float64, with its own constants."""
        question = self.prover.question(job.point.direction, job.alone, job.point.variant, job.on_mesh, *record)
        return ideal_values(question.variant, question)

    def _program(self, side: str, site: Site, direction: Direction) -> Program:
        """Return the program of a side, which is the same in every draw and is compiled already."""
        return self.execution.sides.programs.start(self.execution.program(side, site, direction))

    def _evaluate(self, job: PendingPoint, label: str, inputs: Inputs, floored: bool) -> dict[str, IdealValue]:
        direction, reference = job.point.direction, self.execution.pair.reference_name
        try:
            question = self.prover.question(direction, job.alone, job.point.variant, job.on_mesh, *inputs[label])
            if floored:
                return floored_values(question, self.platform)
            plain = ideal_values(question.reference, question)
            return {path: IdealValue(value) for path, value in plain.items()}
        except NotCovered:
            wide = replace(job.alone, x64=True)
            outputs = self.execution.run(self._program(reference, wide, direction), reference, wide, direction, [label])
            return {path: IdealValue(leaf.array) for path, leaf in outputs.trees[label].leaves.items()}


def _equal(inputs: Inputs, others: Inputs) -> bool:
    """Return whether two draws are one: the declaration gives fixed values, and there is nothing to draw."""
    return all(
        np.array_equal(array, other[name])
        for label, (record, cotangents) in inputs.items()
        for arrays, other in ((record, others[label][0]), (cotangents, others[label][1]))
        for name, array in arrays.items()
    )


GRAVE = frozenset({"structure", "dtype", "weak type", "shape", "NaN vs number", "overflow to infinity", "NaN payload"})
"""Kinds of difference that no rounding makes."""


class EvidenceCollector:
    """Measures leaves of the points of one pair."""

    def __init__(self, execution: Execution) -> None:
        self.execution = execution
        self.platform = jax.default_backend()
        prover = Prover(execution.sides, self.platform)
        self.proofs = PointProofs(execution, prover)
        self.draws = FurtherDraws(execution, prover, self.platform)
        self._executed = ExecutedEvidence(execution)
        self._estimates: dict[tuple[ByIdentity, str], ErrorEstimate] = {}
        self._noise: tuple[PendingPoint | None, dict[int, Excuses]] = None, {}

    def measure(
        self,
        job: PendingPoint,
        path: str,
        comparison: Comparison,
        alone: ProgramOutputs,
        variant: ProgramOutputs,
        identity: FieldIdentity | Unproved,
    ) -> RoundingEvidence | None:
        """Return the measurements of a leaf, where its differences are of finite floats; `identity` of its formulas.

        Raises:
            CouldNotRun: the programs can neither be interpreted nor executed in float64.
        """
        first = next(iter(alone.trees.values())).leaves.get(path)
        if first is None or GRAVE & set(comparison.kinds):
            return None
        if not (floats.is_float(first.array.dtype) or floats.is_complex(first.array.dtype)):
            return None
        # Equal bits give no information on rounding: only the inputs on which bits differ are measured.
        labels = [
            label
            for label in alone.trees
            if label in variant.trees and not same_bits(*(t.trees[label].leaves[path].array for t in (alone, variant)))
        ]
        if self._is_brief(job, path, identity):
            labels = farthest(labels, path, alone, variant)
        questions = self.proofs.questions(job)
        uneven = next(iter(questions.values())).uneven
        try:
            if uneven is not None:
                raise NotCovered(uneven)
            measured = self._interpreted(job, path, labels, identity, alone, variant)
        except NotCovered as error:
            brief = self._is_brief(job, path, identity)
            known, noise = {**self._test(job, path), **_known(identity), "brief": brief}, {}
            if "unproved" in known:
                known["unproved"] = str(error)
            if isinstance(identity, FieldIdentity) and identity.unsure is not None:
                noise = {label: partial(Excuses(questions[label]).both, path, False) for label in labels}
            measured = self._executed.measure(job, path, labels, alone, variant, noise, **known)
        if measured.place is None:
            return measured
        label, index = measured.place
        reference, optimized = (outputs.trees[label].leaves[path].array for outputs in (alone, variant))
        # Of complex numbers the parts are measured, along one more dimension.
        return replace(measured, witness=(witness_at(path, reference, optimized, index[: first.array.ndim]), label))

    def _test(self, job: PendingPoint, path: str, floored: Sequence[str] = (), own: bool = False) -> dict[str, Any]:
        """Return the accuracy test of a leaf as arguments of `gather_evidence`."""
        contract = self.execution.pair.contract(**where(job.point), leaf=path)
        limit = self.execution.pair.accuracy_of(contract)
        test = {"limit": limit, "more": self.draws.ratios(job, path, floored, own), "own": own}
        return test | {"dependent": self.draws.depend(job)}

    def _is_brief(self, job: PendingPoint, path: str, identity: FieldIdentity | Unproved) -> bool:
        """Return whether only a loss of kind can change the verdict: formulas are shown, and no limit is set."""
        return is_smaller(identity) and self._test(job, path)["limit"] is None

    def _interpreted(
        self,
        job: PendingPoint,
        path: str,
        labels: Sequence[str],
        identity: FieldIdentity | Unproved,
        alone: ProgramOutputs,
        variant: ProgramOutputs,
    ) -> RoundingEvidence:
        """Return the measurements of a leaf, both programs interpreted in float64 with error bounds."""
        questions = self.proofs.questions(job)
        samples, proved = {}, not isinstance(identity, Unproved) and identity.equal and not is_smaller(identity)
        if self._noise[0] is not job:
            self._noise = job, {}
        brief, noise = self._is_brief(job, path, identity), self._noise[1]
        if brief:  # other leaves are rarely measured at further inputs
            questions = {**questions, **{label: questions[label].only([path]) for label in labels[1:]}}
        for label in labels:
            question = questions[label]
            estimates = [self._estimate(program, question) for program in question.sides]
            excuses = noise.setdefault(id(question), Excuses(question))  # which keeps the question, and so its id
            samples[label] = LeafSample(
                floats.parts(alone.trees[label].leaves[path].array),
                floats.parts(variant.trees[label].leaves[path].array),
                estimates[0].values[path],
                estimates[1].values[path],
                estimates[0].bounds[path],
                estimates[1].bounds[path],
                None if proved else partial(excuses.both, path, getattr(identity, "unsure", None) is None),
                floor_of(estimates[0].values[path], estimates[0].bounds[path], excuses.float64, path),
                (estimates[0].narrow_sums[path], estimates[1].narrow_sums[path]),
            )
        known = _known(identity)
        if "unproved" in known:
            samples, known["constants"] = _by_constants(questions, path, samples)
        floored = [label for label, sample in samples.items() if sample.floor is not None]
        # Constants that were computed may explain what differs, too: it proves nothing, and no operation loses it.
        computed = not isinstance(identity, Unproved) and identity.undecided and identity.unsure is not None
        test = self._test(job, path, floored, computed or bool(known.get("constants")))
        test["brief"] = brief
        evidence = gather_evidence(samples, **test, **known)
        if evidence.is_rounding or evidence.constants or evidence.place is None:
            return evidence
        label, index = evidence.place
        return self._with_culprit(evidence, questions[label], path, index, samples[label])

    def _with_culprit(
        self, evidence: RoundingEvidence, question: Question, path: str, index: tuple[int, ...], sample: LeafSample
    ) -> RoundingEvidence:
        """Return the evidence with the operation or the tie that explains one element, where there is one."""
        ref, var, true, own = (float(np.asarray(array)[index]) for array in sample[:4])
        if abs(own - true) > abs(var - ref) / 2:  # the sides differ in float64, which rounding cannot explain
            return replace(evidence, tie=tie(question, self.platform, path, index))
        if evidence.mathematics is not None:
            return evidence
        most = loses_most(question.variant, question, self.platform, path, index, abs(var - own))
        return replace(evidence, loses_most=most)

    def _estimate(self, program: Any, question: Question) -> ErrorEstimate:
        names = (*(argument.name for argument in question.inputs), *question.outputs)
        key = ByIdentity(program), digest_of(question.arrays, *names)
        if key not in self._estimates:
            if len(self._estimates) > 256:
                self._estimates.clear()
            _require_memory(24 * most_alive(live(program).jaxpr))
            self._estimates[key] = estimate_errors(program, question, self.platform)
        return self._estimates[key]


def _require_memory(needed: int) -> None:
    """Note how much memory bounds take where that is much: a value, its bound and what is made on the way, in float64.

    Raises:
        NotCovered: the machine has less.
    """
    total, said = total_memory(), f"bounds of rounding take about {gibibytes(needed)} at these sizes"
    if needed > total:
        said += f", and there are {gibibytes(total)}: float64 is executed instead"
    if needed > min(total, 2 * GIB):
        note(said, lasting=False)
    if needed > total:
        raise NotCovered(said)


FARTHER = 32.0
"""How many times farther apart than at the first input the sides are where another one is measured too: by a loss of
kind, as `GROSS` of `rounding`; what is less changes no verdict where no limit is set.
"""


def farthest(labels: Sequence[str], path: str, alone: ProgramOutputs, variant: ProgramOutputs) -> list[str]:
    """Return the first input, and those at which both sides are much farther apart in a row, by its own size."""
    apart: dict[str, float] = {}
    for label in labels:
        first, second = (
            np.atleast_1d(floats.parts(side.trees[label].leaves[path].array).astype(np.float64))
            for side in (alone, variant)
        )
        with np.errstate(all="ignore"):
            gaps = np.nanmax(np.abs(first - second), axis=-1, initial=0.0)
            sizes = np.nanmax(np.maximum(np.abs(first), np.abs(second)), axis=-1, initial=0.0)
            apart[label] = float(np.nanmax(gaps / sizes, initial=0.0))
    return [label for label in labels if label == labels[0] or not apart[label] <= FARTHER * apart[labels[0]]]


def _known(identity: FieldIdentity | Unproved) -> dict[str, Any]:
    """Return what the fields say, as arguments of `gather_evidence`."""
    if isinstance(identity, Unproved):
        return {"unproved": identity.why}
    if identity.equal:
        return {name: getattr(identity, name) for name in ("log2_error", "constants", "assumed")}
    if not identity.undecided:
        return {"refuted": identity.witness}
    functions = ", ".join(sorted(identity.unknown))
    why = identity.unsure or f"the fields do not know every law of {functions}"
    return {"unproved": why + (f"; assumes {identity.assumed}" if identity.assumed else "")}


def _by_constants(
    questions: Mapping[str, Question], path: str, samples: dict[str, LeafSample]
) -> tuple[dict[str, LeafSample], tuple[str, ...]]:
    """Return the samples where the rounding of literals explains what differs in float64, and these literals in words.

    It does where both sides are equal in float64, at all inputs, once such literals stand for the same numbers.
    """
    excused: dict[str, LeafSample] = {}
    words: tuple[str, ...] = ()
    for label, sample in samples.items():
        stands, words = rounded_literals(questions[label])
        if not stands:
            return samples, ()
        question = questions[label]
        first, second = (ideal_values(program, question, stands)[path] for program in question.sides)
        if not np.allclose(first, second, rtol=0, atol=IDENTITY * np.max(np.abs(first), initial=0), equal_nan=True):
            return samples, ()
        excused[label] = sample._replace(noise=partial(np.abs, sample.wide - sample.oracle))
    return excused, words
