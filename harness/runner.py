"""One point of the sweep: both sides on the same record, on one device and on the mesh, forward or gradient.

The reference on one device, unsharded, is the judge; the reference on the mesh tells a fault of the variant from
what the mesh does to both sides; the variant on the mesh is what is judged. Each runs twice on its first input.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from harness import floats
from harness.bits import Comparison, same_bits
from harness.contract import Direction
from harness.errors import CouldNotRun, NothingCompared
from harness.implementations import check_call
from harness.inputs import COTANGENTS, Array, Record, cotangent, differentiable, records
from harness.meshes import MeshSpec, Mode
from harness.outcome import Outcome, Seen, compare_seen, compared_nothing
from harness.pair import Pair, Refusal
from harness.placement import check_mesh_used, describe, diverging_replicas, place, put
from harness.point import Point
from harness.precision import Evidence, Sample, gather_evidence
from harness.programs import Program, Programs
from harness.sides import Sides, Site, check_comparator, named_leaves, to_host, widen_array


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """Everything seen at one point."""

    outcomes: tuple[Outcome, ...]
    seconds: float
    devices: int
    layout: Mapping[str, str]
    emulated: tuple[str, ...]


@dataclass(slots=True)
class Job:
    """A point whose programs are being compiled."""

    point: Point
    alone: Site
    on_mesh: Site
    programs: dict[str, Program] = field(default_factory=dict)


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
        self.pair = pair
        self.sides = Sides(pair, programs)
        self._records: dict[tuple[str, str, str], dict[str, Record]] = {}
        self._seen: dict[tuple[int, str, str], Seen] = {}
        self._meshes: dict[tuple[str, str], Any] = {}
        self._rounded: set[tuple[str, str, str]] = set()

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
            "alone": self._program(reference, job.alone, point.direction),
            "reference": self._program(reference, job.on_mesh, point.direction),
            "variant": self._program(point.variant, job.on_mesh, point.direction),
        }
        for program in job.programs.values():
            self.sides.programs.start(program)
        if self._may_round(point) and _likeness(point) in self._rounded:
            # Its like needed float64 evidence before: have it compiled together with the rest.
            self._float64_programs(job)
        return job

    def finish(self, job: Job) -> Run:
        """Run a started point and compare.

        Raises:
            CouldNotRun: a side raised, the mesh was not used, or there was nothing to compare.
        """
        begin = time.perf_counter()
        point, reference = job.point, self.pair.reference_name
        alone = self._execute(job.programs["alone"], reference, job.alone, point.direction)
        on_mesh = self._execute(job.programs["reference"], reference, job.on_mesh, point.direction)
        variant = self._execute(job.programs["variant"], point.variant, job.on_mesh, point.direction)
        if not any(tree.leaves for tree in alone.trees.values()):
            raise NothingCompared(f"'{reference}' returned no arrays; there is nothing to compare")
        unstable = next(
            (side for side, seen in ((reference, alone), (point.variant, variant)) if not seen.repeats), None
        )
        by_leaf = compare_seen(reference=alone, optimized=variant)
        with_mesh = compare_seen(reference=on_mesh, optimized=variant)
        outcomes = []
        for path, (comparison, where) in by_leaf.items():
            nothing = compared_nothing(alone, path, point.direction)
            evidence, no_evidence = None, None
            if not comparison.equal and unstable is None:
                try:
                    evidence = self._evidence(job, path, comparison, alone, variant)
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

    # -- programs

    def _build(self, mesh: MeshSpec, mode: Mode) -> Any:
        if (mesh.id, mode) not in self._meshes:
            self._meshes[mesh.id, mode] = mesh.build(mode)
        return self._meshes[mesh.id, mode]

    def _program(self, side: str, site: Site, direction: Direction) -> Program:
        return self.sides.forward(side, site) if direction == "forward" else self.sides.gradient(side, site)

    def _may_round(self, point: Point) -> bool:
        where = {name: getattr(point, name) for name in Point.__slots__}
        return any(c.lowest == "rounding" and c.covers(**where, leaf=None) for c in self.pair.contracts)

    def _float64_programs(self, job: Job) -> tuple[Program, Program]:
        """The oracle (the reference in float64, alone) and the variant in float64 on the mesh."""
        alone, on_mesh = _wide(job.alone), _wide(job.on_mesh)
        oracle = self._program(self.pair.reference_name, alone, job.point.direction)
        variant = self._program(job.point.variant, on_mesh, job.point.direction)
        return self.sides.programs.start(oracle), self.sides.programs.start(variant)

    # -- running

    def _inputs(self, site: Site, side: str, direction: Direction) -> dict[str, tuple[Record, dict[str, Array]]]:
        """Every input of a program by label: the records, for a gradient times the cotangents."""
        key = (site.case.id, site.dtype, site.mesh.id)
        if key not in self._records:
            if len(self._records) > 64:
                self._records.clear()
            self._records[key] = records(self.pair, site.case, site.dtype, site.mesh)
        found = self._records[key]
        if direction == "forward":
            return {name: (record, {}) for name, record in found.items()}
        types = self.sides.cotangent_types(side, site)
        # Cotangents are drawn in the narrow dtype and widened, so that float64 sees the very same numbers.
        narrow = types if not site.x64 else self.sides.cotangent_types(side, _narrow(site))
        pulled = {
            kind: {
                path: cotangent(kind, t.shape, narrow[path].dtype, self.pair.name, site.case.id, site.dtype, path)
                for path, t in types.items()
            }
            for kind in COTANGENTS
        }
        return {
            f"{name}, {kind} cotangent": (record, cotangents)
            for name, record in found.items()
            for kind, cotangents in pulled.items()
        }

    def _execute(self, program: Program, side: str, site: Site, direction: Direction) -> Seen:
        """Run a program on every input, the first one twice; what it gave is kept for the next variant."""
        compiled = program.result()
        key = (id(program), site.case.id, site.dtype)  # cases and dtypes with other values share programs
        if key in self._seen:
            return self._seen[key]
        if len(self._seen) > 256:
            self._seen.clear()
        args = self.sides.args(site)
        seen = Seen(trees={}, repeats=True, layout={}, replicas=[])
        for label, (record, cotangents) in self._inputs(site, side, direction).items():
            with program.setup.active():
                wide = {name: widen_array(array, site) for name, array in record.items()}
                placed = place(wide, args, site.mesh, site.built)
                if direction == "forward":
                    call: tuple[Any, ...] = (placed,)
                else:
                    names = differentiable(args, site.dtype)
                    types = self.sides.cotangent_types(side, site)
                    pulled = [
                        put(widen_array(c, site).astype(types[p].dtype), types[p].sharding)
                        for p, c in cotangents.items()
                    ]
                    call = ({n: placed[n] for n in names}, {n: placed[n] for n in placed if n not in names}, pulled)
                outputs = compiled(*call)
            tree = to_host(outputs, program, direction)
            if not seen.trees:
                with program.setup.active():
                    again = to_host(compiled(*call), program, direction)
                seen.repeats = all(
                    same_bits(leaf.array, again.leaves[path].array) for path, leaf in tree.leaves.items()
                )
                leaves = named_leaves(outputs, direction)
                named = leaves if direction == "forward" else {f"gradient of {name}": v for name, v in leaves.items()}
                seen.layout = {name: describe(value) for name, value in {**placed, **named}.items()}
                if site.built is not None:
                    cotangents_placed = {f"cotangent {n}": c for n, c in enumerate(call[2] if len(call) > 2 else ())}
                    check_mesh_used({**placed, **cotangents_placed}, leaves, site.mesh, site.built)
                    seen.replicas = diverging_replicas(leaves)
            seen.trees[label] = tree
        self._seen[key] = seen
        return seen

    # -- judging

    def _evidence(self, job: Job, path: str, comparison: Comparison, alone: Seen, variant: Seen) -> Evidence | None:
        """The float64 measurements of a leaf, where its differences are of finite floats."""
        first = next(iter(alone.trees.values())).leaves.get(path)
        grave = {"structure", "dtype", "weak type", "shape", "NaN vs number", "overflow to infinity", "NaN payload"}
        if first is None or not floats.is_float(first.array.dtype) or grave & set(comparison.kinds):
            return None
        point = job.point
        self._rounded.add(_likeness(point))
        oracle_program, wide_program = self._float64_programs(job)
        oracle = self._execute(oracle_program, self.pair.reference_name, _wide(job.alone), point.direction)
        wide = self._execute(wide_program, point.variant, _wide(job.on_mesh), point.direction)
        return gather_evidence(
            {
                label: Sample(*(seen.trees[label].leaves[path].array for seen in (alone, variant, oracle, wide)))
                for label in alone.trees
            }
        )


def _likeness(point: Point) -> tuple[str, str, str]:
    return (point.variant, point.dtype, point.direction)


def _wide(site: Site) -> Site:
    return Site(case=site.case, dtype=site.dtype, mesh=site.mesh, mode=site.mode, built=site.built, x64=True)


def _narrow(site: Site) -> Site:
    return Site(case=site.case, dtype=site.dtype, mesh=site.mesh, mode=site.mode, built=site.built)
