"""One point of the sweep: both sides on the same record, on one device and on the mesh, forward or gradient.

The reference on one device, unsharded, is the judge; the reference on the mesh tells a fault of the variant from
what the mesh does to both sides; the variant on the mesh is what is judged. Each runs twice on its first input.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.canary import check_proofs
from harness.case import Refusal
from harness.errors import CouldNotRun, NothingCompared
from harness.evidence import Judge
from harness.execution import Execution, Job
from harness.implementations import check_call
from harness.inputs import COTANGENTS
from harness.meshes import MeshSpec, Mode
from harness.outcome import Outcome, Seen, compare_seen, compared_nothing
from harness.pair import Pair
from harness.point import Point
from harness.programs import Programs
from harness.prover import Unproved
from harness.sides import Sides, Site, check_comparator


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """Everything seen at one point."""

    outcomes: tuple[Outcome, ...]
    seconds: float
    devices: int
    layout: Mapping[str, str]
    emulated: tuple[str, ...]


class Runner:
    """Runs the points of one pair.

    Args:
        pair: the declaration.
        programs: where compiled programs are shared.

    Raises:
        DeclarationError: a side is missing or has another signature than the reference.
        CheckerBroken: the comparison does not see planted differences.
    """

    def __init__(self, pair: Pair, programs: Programs) -> None:
        check_comparator()
        check_proofs()
        pair.check_domains()
        self.pair = pair
        self.sides = Sides(pair, programs)
        self.execution = Execution(self.sides)
        self.evidence = Judge(self.execution)
        self._meshes: dict[tuple[str, str], Any] = {}

    def start(self, point: Point) -> Job:
        """Trace the programs of a point and have them compiled."""
        case, mesh = self.pair.case(point.case), MeshSpec.parse(point.mesh)
        names = (*self.pair.arguments(case, mesh), *case.statics)
        check_call(self.pair, case, names)
        built = self._build(mesh, point.mode)
        job = Job(
            point,
            alone=Site(case=case, dtype=point.dtype, mesh=mesh, mode=point.mode, built=None),
            on_mesh=Site(case=case, dtype=point.dtype, mesh=mesh, mode=point.mode, built=built),
        )
        reference = self.pair.reference_name
        job.programs = {
            "alone": self.execution.program(reference, job.alone, point.direction),
            "reference": self.execution.program(reference, job.on_mesh, point.direction),
            "variant": self.execution.program(point.variant, job.on_mesh, point.direction),
        }
        for program in job.programs.values():
            self.sides.programs.start(program)
        return job

    def finish(self, job: Job) -> Run:
        """Run a started point and compare.

        Raises:
            CouldNotRun: a side raised, the mesh was not used, or there was nothing to compare.
        """
        begin = time.perf_counter()
        point, reference = job.point, self.pair.reference_name
        proof = self.evidence.moved(job)
        alone, on_mesh, variant = self._run(job, proof.holds)
        if not any(tree.leaves for tree in alone.trees.values()):
            raise NothingCompared(f"'{reference}' returned no arrays; there is nothing to compare")
        unstable = next(
            (side for side, seen in ((reference, alone), (point.variant, variant)) if not seen.repeats), None
        )
        by_leaf = compare_seen(reference=alone, optimized=variant)
        with_mesh = compare_seen(reference=on_mesh, optimized=variant)
        same_program = not proof.holds and self.evidence.same_program(job)
        outcomes = []
        for path, (comparison, where) in by_leaf.items():
            nothing = compared_nothing(alone, path, point.direction)
            evidence, no_evidence = None, None
            known = Unproved("") if proof.holds else self.evidence.identity(job, path)
            if not comparison.equal and unstable is None:
                try:
                    evidence = self.evidence.evidence(job, path, comparison, alone, variant)
                except CouldNotRun as error:
                    no_evidence = str(error)
            only_mesh = not comparison.equal and path in with_mesh and with_mesh[path][0].equal
            outcomes.append(
                Outcome(
                    comparison=comparison,
                    where=where,
                    unstable=unstable,
                    only_mesh=only_mesh,
                    evidence=evidence,
                    no_evidence=no_evidence,
                    nothing=nothing,
                    identity=None if isinstance(known, Unproved) else known,
                    promises=proof.promises.get(path),
                    routing=proof.routing,
                    same_program=same_program,
                )
            )
        for comparison in variant.replicas:
            outcomes.append(Outcome(comparison=comparison, where="between replicas"))
        return Run(
            outcomes=tuple(outcomes),
            seconds=time.perf_counter() - begin,
            devices=job.on_mesh.mesh.devices,
            layout=variant.layout,
            emulated=job.programs["variant"].emulated(),
        )

    def _run(self, job: Job, proved: bool) -> list[Seen]:
        """The reference alone, the reference on the mesh and the variant there.

        A proof holds for every input: one is run all the same, special values in it, to check the compiler.
        """
        point, reference = job.point, self.pair.reference_name
        labels = None
        if proved:
            # Of each record the first cotangent is the random one; the special record comes last.
            labels = [list(self.execution.inputs(job.alone, reference, point.direction))[-_of_a_record(point)]]
        sides = (
            ("alone", reference, job.alone),
            ("reference", reference, job.on_mesh),
            ("variant", point.variant, job.on_mesh),
        )
        return [
            self.execution.run(job.programs[name], side, site, point.direction, labels) for name, side, site in sides
        ]

    def refusals(self, point: Point, refusal: Refusal) -> dict[str, Exception | None]:
        """What the sides that must refuse raise while tracing: the variant on the mesh; the reference, if it must."""
        case, mesh = self.pair.case(point.case), MeshSpec.parse(point.mesh)
        sites = {True: None, False: self._build(mesh, point.mode)}
        raised: dict[str, Exception | None] = {}
        for side in dict.fromkeys((self.pair.reference_name, point.variant)):
            if refusal.variants and side not in refusal.variants:
                continue
            for alone, built in sites.items():
                if alone and side != self.pair.reference_name:
                    continue
                site = Site(case=case, dtype=point.dtype, mesh=mesh, mode=point.mode, built=built)
                name = f"{side} (one device)" if alone else side
                raised[name] = self.sides.forward(side, site).error
        return raised

    def _build(self, mesh: MeshSpec, mode: Mode) -> Any:
        if (mesh.id, mode) not in self._meshes:
            self._meshes[mesh.id, mode] = mesh.build(mode)
        return self._meshes[mesh.id, mode]


def _of_a_record(point: Point) -> int:
    """How many inputs a record gives."""
    return len(COTANGENTS) if point.direction == "gradient" else 1
