"""One point of the sweep: both sides on the same record, on one device and on the mesh, forward or gradient.

The reference on one device, unsharded, is what the variant on the mesh is compared with; the reference on the mesh
distinguishes a fault of the variant from an effect of the mesh on both sides. Each runs twice on its first input.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Any

from samebits.check.cross_checks import CrossChecks, proved_outcomes, size_proofs
from samebits.check.evidence import EvidenceCollector
from samebits.check.execution import (
    Execution,
    MovementProof,
    PendingPoint,
    cross_check_input,
    declared_arrays,
    one_cotangent_each,
)
from samebits.check.index_values import at_index_values
from samebits.check.line_evidence import LineFinder
from samebits.check.magnitudes import at_magnitudes
from samebits.check.other_inputs import Searches, at_other_cotangents
from samebits.check.outcome import (
    FORMULAS_SHARE,
    OUT_OF_TIME,
    Budget,
    LeafOutcome,
    ProgramOutputs,
    compare_outputs,
    compared_nothing,
    leaf_arrays,
)
from samebits.check.point_proofs import PointProofs, at_fault
from samebits.check.rounding import RoundingEvidence
from samebits.check.sites import TraceOrder, errors_raised, traced_point
from samebits.check.smaller_sizes import SmallerSizes, StandIn, is_smaller
from samebits.errors import CouldNotRun, NothingCompared
from samebits.host.isolation import note
from samebits.interpret.field_proof.proof import FieldIdentity
from samebits.interpret.machine_independence import Independence
from samebits.interpret.other_values import Counterexample
from samebits.numerics.bits import Comparison
from samebits.programs.asked import recorded
from samebits.programs.host_trees import check_comparator
from samebits.programs.implementations import check_call
from samebits.programs.program_cache import Programs
from samebits.programs.sides import TracedSides
from samebits.prove.problem import other_outputs
from samebits.prove.prover import Prover, Unproved
from samebits.prove.selftest import check_proofs
from samebits.schema.case import Refusal
from samebits.schema.finding import Executed, where
from samebits.schema.meshes import MeshSpec, Mode
from samebits.schema.pair import Pair
from samebits.schema.point import USUAL, Effort, Point

SEARCHES = (at_index_values, at_magnitudes, at_other_cotangents)
"""What looks for other inputs at which a leaf differs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PointRun:
    """Everything seen at one point."""

    outcomes: tuple[LeafOutcome, ...]
    seconds: float
    executed: Executed
    bits: Mapping[str, str] = field(default_factory=dict)
    """By leaf, a digest of what the reference gave on one device."""
    arrays: Mapping[str, str] = field(default_factory=dict)
    """By leaf, dtype and shape."""
    remarks: tuple[str, ...] = ()
    """What is unlike other points, to be said with every verdict."""
    executed_elsewhere: int | None = None
    """Of a point that was not executed, how many points of its variant and direction are; None where it was."""


class Runner:
    """Runs the points of one pair.

    Args:
        meshes: built meshes by the id of the mesh and the mode; the others are of the first devices.

    Raises:
        DeclarationError: a side is missing or has another signature than the reference.
        CheckerBroken: the comparison does not see planted differences.
    """

    def __init__(
        self,
        pair: Pair,
        programs: Programs,
        effort: Effort = USUAL,
        meshes: Mapping[tuple[str, str], Any] = MappingProxyType({}),
    ) -> None:
        if effort.selftest and not programs.tested:
            check_comparator()
            check_proofs()
            programs.tested = True
        pair.check_argument_names()
        self.pair, self.assuming, self.budget = pair, effort.assuming, effort.budget
        self.sides = TracedSides(pair, programs)
        self.execution = Execution(self.sides, effort.repeats, effort.idle_axes)
        self.evidence = EvidenceCollector(self.execution)
        self.proofs = self.evidence.proofs
        self.lines = LineFinder(self.proofs)
        self._searches = Searches(self.proofs, SEARCHES)
        self._smaller = SmallerSizes(self.execution, self._proofs_of) if effort.assuming else None
        self._cross_checks = CrossChecks.of(pair, effort)
        self._order = TraceOrder(self.sides)
        self._sizes = size_proofs(pair, effort)
        self._meshes: dict[tuple[str, str], Any] = {**meshes}

    def _proofs_of(self, sides: TracedSides) -> tuple[PointProofs, Searches]:
        """Return proofs and searches for the same pair at other sizes."""
        execution = Execution(sides, self.execution.repeats, self.execution.idle_axes)
        proofs = PointProofs(execution, Prover(sides, self.evidence.platform))
        return proofs, Searches(proofs, SEARCHES)

    def start(self, point: Point) -> PendingPoint:
        """Trace the programs of a point and have them compiled; raises as `trace` does."""
        return self.compile(self.trace(point))

    def trace(self, point: Point) -> PendingPoint:
        """Trace the programs of a point.

        Raises:
            CouldNotRun: a side is bound to another mesh than that of the point.
            NoExplicitForm: the point is of the reference itself, which cannot be traced on explicit axes.
        """
        case, mesh = self.pair.case(point.case), MeshSpec.parse(point.mesh)
        names = (*self.pair.argument_trees(case, mesh), *case.statics)
        check_call(self.pair, case, names)
        on_mesh = self.sides.site_of(point, self._build(mesh, point.mode))
        job = traced_point(self.execution, point, on_mesh, self._order)
        for remark in job.remarks:
            note(f"pair '{self.pair.name}': {remark}")
        return job

    def compile(self, job: PendingPoint) -> PendingPoint:
        """Have the programs of a point compiled, unless labels prove it and others are executed."""
        point = job.point
        with recorded(job.asked):
            if self._cross_checks is not None and self._cross_checks.spares(point, self._sizes):
                job.proved = proved_outcomes(self.execution, self.proofs, job)
                job.proved = job.proved and self._sizes.attached(point, self.proofs.movement(job), job.proved)
        if job.proved is None:
            for program in job.programs.values():
                self.sides.programs.start(program)
        return job

    def finish(self, job: PendingPoint, leaves: Collection[str] | None = None) -> PointRun:
        """Run a started point and compare.

        Args:
            leaves: those to judge, all by default.

        Raises:
            CouldNotRun: a side raised, the mesh was not used, or there was nothing to compare.
        """
        begin = time.perf_counter()
        reference = self.pair.reference_name
        whole = self._at_fault(job)
        if whole is None and job.proved is not None:
            return self._by_proof_alone(job, job.proved, begin)
        other = None if whole is not None else self._other_cotangents(job)
        if other is not None:
            whole = LeafOutcome(
                comparison=other, lines=partial(self.lines.lines, job, other.path, None, typed=other.typed)
            )
        if whole is not None:
            executed = Executed(devices=job.on_mesh.mesh.devices)
            return PointRun(outcomes=(whole,), seconds=time.perf_counter() - begin, executed=executed)
        smaller = None if self._smaller is None else self._smaller.of(job)
        if smaller is not None and smaller.no_movement() is not None:
            job.movement = MovementProof()  # labels of large arrays take long to find that out
        proof = self.proofs.movement(job)
        same_program = not proof.holds and self.proofs.same_program(job)
        alone, on_mesh, variant = self._run(job, proof.holds, same_program)
        if not any(tree.leaves for tree in alone.trees.values()):
            raise NothingCompared(
                f"'{reference}' returned no arrays; there is nothing to compare: return what it computes"
            )
        outcomes = self._outcomes(job, proof, same_program, (alone, on_mesh, variant), leaves, smaller)
        outcomes = self._sizes.attached(job.point, proof, outcomes)
        for comparison in variant.replicas:
            outcomes.append(LeafOutcome(comparison=comparison, where="between replicas"))
        return PointRun(
            outcomes=tuple(outcomes),
            seconds=time.perf_counter() - begin,
            executed=Executed(
                devices=job.on_mesh.mesh.devices,
                device_order=job.on_mesh.device_order,
                layout=variant.layout,
                emulated=job.programs["variant"].emulated(),
            ),
            bits=alone.digests(),
            arrays=declared_arrays(job),
            remarks=job.remarks,
        )

    def _by_proof_alone(self, job: PendingPoint, outcomes: Sequence[LeafOutcome], begin: float) -> PointRun:
        """Return a point that labels prove and that is not executed."""
        assert self._cross_checks is not None
        return PointRun(
            outcomes=tuple(
                replace(
                    outcome,
                    assuming=self.assuming,
                    one_way=partial(self.proofs.one_way, job),
                    lines=partial(self.lines.lines, job, outcome.comparison.path, None),
                )
                for outcome in outcomes
            ),
            seconds=time.perf_counter() - begin,
            executed=Executed(emulated=job.programs["variant"].emulated()),
            arrays=declared_arrays(job),
            remarks=job.remarks,
            executed_elsewhere=self._cross_checks.others(job.point),
        )

    def _at_fault(self, job: PendingPoint) -> LeafOutcome | None:
        """Return the outcome of a point of which a kernel uses its memory wrongly; None of any other."""
        sides = [job.programs[name] for name in ("alone", "variant")]
        if any(program.traced is None for program in sides):
            return None
        reference, variant = (program.traced.jaxpr for program in sides)
        return at_fault(reference, variant, partial(self.proofs.questions, job), executed=True)

    def _other_cotangents(self, job: PendingPoint) -> Comparison | None:
        """Say how the forward outputs of a gradient's sides differ; None where both pull back the same cotangents."""
        if job.point.direction != "gradient":
            return None
        comparisons = other_outputs(self.sides, "gradient", *self.execution.ends(job))
        return next((comparison for comparison in comparisons if comparison.path == "*"), None)

    def _outcomes(
        self,
        job: PendingPoint,
        proof: MovementProof,
        same_program: bool,
        ran: tuple[ProgramOutputs, ProgramOutputs | None, ProgramOutputs],
        leaves: Collection[str] | None,
        smaller: StandIn | None,
    ) -> list[LeafOutcome]:
        """Return what each leaf showed."""
        point, reference, (alone, on_mesh, variant) = job.point, self.pair.reference_name, ran
        unstable = next(
            (side for side, outputs in ((reference, alone), (point.variant, variant)) if not outputs.repeats), None
        )
        with_mesh = {} if on_mesh is None else compare_outputs(reference=on_mesh, optimized=variant)
        moved = {} if on_mesh is None else compare_outputs(reference=alone, optimized=on_mesh)
        proved = proof.holds or same_program
        smaller = None if proved else smaller
        of_reference = replace(job, point=replace(point, variant=reference), programs={})
        on_one_mesh = replace(job, alone=job.on_mesh, programs={})
        outcomes, budget = [], Budget.from_now(self.budget)
        for path, (comparison, label) in compare_outputs(reference=alone, optimized=variant).items():
            if leaves is not None and path not in leaves:
                continue
            budget = budget.for_leaf()
            shown = proof.holds or (same_program and comparison.equal)
            known, evidence, no_evidence = self._formulas(
                job, path, comparison, None if unstable else (alone, variant), smaller, budget, proved=shown
            )
            undefined = known.undefined if isinstance(known, Unproved) else None
            same, own = None, None
            shifted = on_mesh is not None and path in moved and not moved[path][0].equal
            if not comparison.equal and point.variant != reference and shifted:
                assert on_mesh is not None
                own = partial(self._seen_and_proved, of_reference, path, moved[path], alone, on_mesh)
                if path in with_mesh and with_mesh[path][0].equal:
                    same = partial(self._seen_and_proved, on_one_mesh, path, with_mesh[path], on_mesh, variant)
            lines = partial(self.lines.lines, job, path, label, typed=comparison.typed)
            if smaller is not None and isinstance(known, FieldIdentity) and not known.equal and is_smaller(known):
                lines = partial(smaller.lines, path, label, typed=comparison.typed)
            outcomes.append(
                LeafOutcome(
                    comparison=comparison,
                    where=label,
                    unstable=unstable,
                    same_on_mesh=same,
                    reference_on_mesh=own,
                    evidence=evidence,
                    no_evidence=no_evidence,
                    derivatives=self.proofs.prover.derivatives(point.direction, point.variant, path),
                    nothing=compared_nothing(alone, path, point.direction) if comparison.equal else None,
                    identity=None if isinstance(known, Unproved) else known,
                    not_interpreted=known.not_interpreted if isinstance(known, Unproved) and not proved else None,
                    undefined=undefined,
                    promises=proof.promises.get(path),
                    routing=proof.routing,
                    same_program=same_program,
                    assumed=proof.assumed,
                    assuming=self.assuming,
                    everywhere=self._independence(job, path, budget) if comparison.equal and not proved else None,
                    elsewhere=partial(self._elsewhere, job, path, smaller, budget, same_program),
                    lines=None if undefined else partial(lines, losing=evidence and evidence.loses_most),
                    budget=budget,
                    arrays=None if comparison.equal else partial(leaf_arrays, path, alone, variant),
                )
            )
        return outcomes

    def _formulas(
        self,
        job: PendingPoint,
        path: str,
        comparison: Comparison,
        ran: tuple[ProgramOutputs, ProgramOutputs] | None,
        smaller: StandIn | None,
        budget: Budget,
        *,
        proved: bool,
    ) -> tuple[FieldIdentity | Unproved, RoundingEvidence | None, str | None]:
        """Return whether a leaf is the same formula on both sides, and where bits differ what is measured, or why not.

        What is shown at smaller sizes counts where large arrays do not say otherwise in float64. Without `ran`, where
        bits do not repeat, nothing is measured.
        """
        measured = partial(self._measured, job, path, comparison, ran)
        shown = None
        if smaller is not None:
            shown = budget.within("formulas", partial(smaller.field_identity, path), None, FORMULAS_SHARE)
        if shown is not None and comparison.equal and shown.equal:
            return shown, None, None
        if shown is not None and not comparison.equal:
            evidence, no_evidence = budget.within("accuracy", partial(measured, shown), (None, OUT_OF_TIME))
            if evidence is not None and evidence.is_same_in_float64 is shown.equal:
                return shown, evidence, no_evidence
            if budget.unreached:  # at full size nothing confirms it
                return Unproved(OUT_OF_TIME), evidence, no_evidence
        known: FieldIdentity | Unproved = Unproved(OUT_OF_TIME if budget.unreached else "")
        if not proved and not budget.unreached:
            whole = partial(self.proofs.field_identity, job, path)
            known = budget.within("formulas", whole, Unproved(OUT_OF_TIME), FORMULAS_SHARE)
        if comparison.equal:
            return known, None, None
        return known, *budget.within("accuracy", partial(measured, known), (None, OUT_OF_TIME))

    def _elsewhere(
        self, job: PendingPoint, path: str, smaller: StandIn | None, budget: Budget, same_program: bool
    ) -> Counterexample | None:
        """Return other inputs at which a leaf differs; at smaller sizes, unless these would make it `different`."""

        def searched() -> Counterexample | None:
            tried = smaller is not None and not budget.unreached
            shown = smaller.field_identity(path) if smaller is not None and tried else None
            if smaller is not None and shown is not None and shown.equal:
                other = smaller.elsewhere(path)
                if other is None or not other.allowed:
                    return other
            return self._searches.counterexample(job, path, same_program)

        return budget.within("other inputs", searched, None)

    def _independence(self, job: PendingPoint, path: str, budget: Budget) -> Independence | None:
        """Return whether equal bits of a leaf are equal on every machine; None where no contract requires it."""
        if self.pair.contract(**where(job.point), leaf=path).lowest != "bitwise":
            return None
        prove = partial(self.proofs.independence, job, path)
        return budget.within("other machines", prove, Independence(False, OUT_OF_TIME))

    def _measured(
        self,
        job: PendingPoint,
        path: str,
        comparison: Comparison,
        ran: tuple[ProgramOutputs, ProgramOutputs] | None,
        identity: FieldIdentity | Unproved,
    ) -> tuple[RoundingEvidence | None, str | None]:
        """Return the measurements of a leaf whose bits differ, or why there are none."""
        try:
            return None if ran is None else self.evidence.measure(job, path, comparison, *ran, identity), None
        except CouldNotRun as error:
            return None, str(error)

    def _seen_and_proved(
        self,
        job: PendingPoint,
        path: str,
        compared: tuple[Comparison, str | None],
        first: ProgramOutputs,
        second: ProgramOutputs,
    ) -> LeafOutcome:
        """Return the outcome of two other sides of a job at a leaf: of the reference on the mesh with either."""
        comparison, where = compared
        known = self.proofs.field_identity(job, path)
        evidence, no_evidence = None, None
        if not comparison.equal:
            evidence, no_evidence = self._measured(job, path, comparison, (first, second), known)
        return LeafOutcome(
            comparison=comparison,
            where=where,
            evidence=evidence,
            no_evidence=no_evidence,
            identity=None if isinstance(known, Unproved) else known,
            elsewhere=partial(self._searches.counterexample, job, path),
        )

    def _run(
        self, job: PendingPoint, proved: bool, same_program: bool
    ) -> tuple[ProgramOutputs, ProgramOutputs | None, ProgramOutputs]:
        """Return the reference alone, the reference on the mesh where it has a program there, and the variant.

        A proof holds for every input: one is run all the same, special values in it, to check the compiler. Where both
        sides are one program, each record shows whether it gives numbers, and the same ones again.
        """
        point, reference = job.point, self.pair.reference_name
        labels = None
        if proved or same_program:
            inputs = self.execution.inputs(job.alone, reference, point.direction)
            labels = [cross_check_input(inputs, point.direction)]
            labels = labels if proved else one_cotangent_each(inputs, point.direction)
        sides = (
            ("alone", reference, job.alone),
            ("reference", reference, job.on_mesh),
            ("variant", point.variant, job.on_mesh),
        )
        ran: dict[str, ProgramOutputs] = {}
        for name, side, site in sides:
            if name in job.programs:
                like = ran["alone"].trees if "alone" in ran else {}
                ran[name] = self.execution.run(job.programs[name], side, site, point.direction, labels, like)
        return ran["alone"], ran.get("reference"), ran["variant"]

    def refusals(self, point: Point, refusal: Refusal) -> dict[str, BaseException | None]:
        """Return the errors of the sides that must reject a case: the variant on the mesh, perhaps the reference."""
        return errors_raised(self.sides, point, refusal, self._build(MeshSpec.parse(point.mesh), point.mode))

    def _build(self, mesh: MeshSpec, mode: Mode) -> Any:
        if (mesh.id, mode) not in self._meshes:
            self._meshes[mesh.id, mode] = mesh.build(mode)
        return self._meshes[mesh.id, mode]
