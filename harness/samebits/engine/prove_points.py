"""`samebits prove`: every point of a plan put to proof, without compiling anything and without devices.

Each proof becomes a `LeafOutcome` that was not executed, and is judged as in `samebits check`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial

from samebits.check.derived_bounds import BoundCache, Derived
from samebits.check.expected_errors import errors_raised
from samebits.check.outcome import LeafOutcome, says_nothing
from samebits.check.sites import no_explicit_form
from samebits.check.trace_order import TraceOrder
from samebits.check.verdict import judge_refusal, without_leaves
from samebits.engine.proof_results import argued, assuming_devices, by_fields, by_labels, of_result, unassuming
from samebits.engine.prove_lines import RefutedLines
from samebits.errors import CouldNotRun, NoExplicitForm, NotCovered
from samebits.host.isolation import note
from samebits.interpret.problem import Question
from samebits.numerics.bits import Comparison
from samebits.programs.alone import baseline, on_mesh_of
from samebits.programs.catalogue import Locator
from samebits.programs.inputs import Record, records
from samebits.programs.plan import Plan
from samebits.programs.program_cache import Programs
from samebits.programs.replay import replay
from samebits.programs.sides import Site, TracedSides
from samebits.prove.mesh_queries import Query, conditions_of, other_devices, place_of_devices, platform_of_process
from samebits.prove.partitioned_gather import needed_by_sums
from samebits.prove.primal_outputs import with_primal
from samebits.prove.problem import cotangents_of, other_outputs
from samebits.prove.prover import Prover, Unproved
from samebits.prove.selftest import check_proofs
from samebits.prove.side_queries import SideQueries
from samebits.schema.domain import RequiredFact
from samebits.schema.meshes import MeshSpec
from samebits.schema.pair import Pair
from samebits.schema.point import Point
from samebits.schema.proof import ProofResult
from samebits.schema.result import Verdict


@dataclass(frozen=True, slots=True)
class Sites:
    """Where the reference alone and a variant are traced."""

    alone: Site
    on_mesh: Site


def prove_points(
    pair: Pair, locator: Locator, plan: Plan, platform: str | None = None, *, assuming: bool = True
) -> Iterator[ProofResult]:
    """What can be proved of each leaf of each point, and whether expected errors are raised.

    Args:
        pair: the declaration.
        locator: where it was found, for the replay commands.
        plan: the points.
        platform: the target: whose branches of `lax.platform_dependent` are taken, and whose products of matrices are
            bounded. None is the platform on which `samebits check` would run here.
        assuming: whether a proof may rest on assumptions beyond shapes and rounding; otherwise it is not accepted.

    Raises:
        DeclarationError: the two sides cannot stand in for each other.
        CheckerBroken: the proofs do not see planted differences.
    """
    prover = PointProver(pair, locator, platform, assuming=assuming)
    try:
        for point in plan.points:
            yield from prover.results(point)
    finally:
        prover.close()


class PointProver:
    """Proves points of one pair; what neighbouring points share is cached.

    Args:
        pair: the declaration.
        locator: where it was found, for the replay commands.
        platform: as for `prove_points`.
        assuming: as for `prove_points`.

    Raises:
        DeclarationError: a domain of the declaration is wrong.
        CheckerBroken: the proofs do not see planted differences.
    """

    def __init__(self, pair: Pair, locator: Locator, platform: str | None = None, *, assuming: bool = True) -> None:
        import jax

        check_proofs()
        pair.check_argument_names()
        self.pair, self.locator = pair, locator
        self._queries = SideQueries(pair)
        self._programs = Programs(threads=1, watch=self._queries.watch)
        self.sides = TracedSides(pair, self._programs)
        self.platform = platform or jax.default_backend()
        self._order = TraceOrder(self.sides)
        self._prover = Prover(self.sides, self.platform, assuming=assuming)
        self._derivations = BoundCache(self.platform)
        self._lines = RefutedLines(self._prover)
        self._records: dict[tuple[str, str, str], dict[str, Record]] = {}

    def results(self, point: Point) -> list[ProofResult]:
        """What can be proved of each leaf of a point, and whether expected errors are raised.

        Raises:
            DeclarationError: the two sides cannot stand in for each other.
        """
        with self._queries.on() if self._is_elsewhere(point) else nullcontext():
            return self._results(point)

    def _results(self, point: Point) -> list[ProofResult]:
        import jax

        pair, sides = self.pair, self.sides
        case, mesh = pair.case(point.case), MeshSpec.parse(point.mesh)
        built = mesh.abstract(point.mode)
        target = self.platform if self.platform != jax.default_backend() else None
        again = replay(self.locator, point, "prove", assuming=self._prover.assuming, platform=target)
        begin = time.perf_counter()
        refusal = case.refusal(point.variant)
        if refusal is not None:
            judged = judge_refusal(pair, point, refusal, errors_raised(sides, point, refusal, built), again)
            return [of_result(judged, round(time.perf_counter() - begin, 4))]
        on_mesh = Site(case=case, dtype=point.dtype, mesh=mesh, mode=point.mode, built=built)
        drawn = self._drawn(point)
        try:
            sites = self.sites(point, on_mesh)
        except CouldNotRun as error:
            verdict: Verdict = "skipped" if isinstance(error, NoExplicitForm) else "error"
            return [of_result(without_leaves(pair.name, point, verdict, str(error), again), 0.0)]
        queries = self._queried(point, sites)
        other = platform_of_process(queries, self.platform)
        if other is not None:
            return [self._undecided(point, other, begin, again)]
        arguments = _prove(self._prover, self._derivations, point, sites, drawn)
        proofs = self._lines.named(point, (sites.alone, sites.on_mesh), drawn, arguments)
        counts = [text for text in conditions_of(queries, self.platform) if place_of_devices([text])]
        other = other_devices(place_of_devices(counts), mesh.devices)
        if other is not None:
            if not self._prover.assuming or any(proof.verdict == "different" for proof in proofs):
                return [self._undecided(point, other, begin, again)]
            proofs = [assuming_devices(proof, counts, mesh.id) for proof in proofs]
        seconds = round((time.perf_counter() - begin) / max(len(proofs), 1), 4)
        return [argument.held(pair=pair.name, seconds=seconds, replay=again) for argument in proofs]

    def sites(self, point: Point, on_mesh: Site) -> Sites:
        """Where the reference alone and the variant are traced, of which neither is what the other made of it.

        Raises:
            CouldNotRun, NoExplicitForm: as `sites_of`.
            DeclarationError: the sides share state.
        """
        sites = dict.fromkeys((point.variant, self.pair.reference_name), on_mesh)
        first = self._order.before(sites) if self.sides.state.is_shared else {}
        places = sites_of(self.sides, point, on_mesh)
        self._order.require_same(first, sites)
        return places

    def _queried(self, point: Point, sites: Sites) -> list[Query]:
        """What the sides ask about this process, where their programs may run elsewhere."""
        if not self._is_elsewhere(point):
            return []
        ends = (self.pair.reference_name, sites.alone), (point.variant, sites.on_mesh)
        return [query for side in ends for query in self._queries.of(self.sides, point.direction, *side)]

    def _is_elsewhere(self, point: Point) -> bool:
        """Whether the programs of a point are to run on other devices than this process has, or another platform."""
        import jax

        return self.platform != jax.default_backend() or MeshSpec.parse(point.mesh).devices != jax.device_count()

    def _undecided(self, point: Point, why: str, begin: float, again: str) -> ProofResult:
        """The result of a point whose programs are not those that would run."""
        nothing = LeafOutcome(comparison=Comparison(path="*", elements=0), executed=False, unproved=why)
        seconds = round(time.perf_counter() - begin, 4)
        return argued(self.pair, point, nothing).held(pair=self.pair.name, seconds=seconds, replay=again)

    def questions(self, point: Point, sites: Sites) -> list[Question]:
        """The questions of a point, one for each of its inputs."""
        return [_question(self._prover, point, sites, record) for record in self._drawn(point).values()]

    def begin_chunk(self) -> None:
        """From here on, lines are searched for as if no point had been refuted before."""
        self._lines = RefutedLines(self._prover)

    def close(self) -> None:
        """Drop the programs."""
        self._programs.close()
        self._queries.close()

    def _drawn(self, point: Point) -> dict[str, Record]:
        """The inputs of a point; those of the latest case, dtype and mesh are cached."""
        key = (point.case, point.dtype, point.mesh)
        if key not in self._records:
            mesh = MeshSpec.parse(point.mesh)
            self._records = {key: records(self.pair, self.pair.case(point.case), point.dtype, mesh)}
        return self._records[key]


def sites_of(sides: TracedSides, point: Point, on_mesh: Site) -> Sites:
    """Where the reference alone and the variant are traced.

    Raises:
        CouldNotRun: a side is bound to another mesh than that of the point.
        NoExplicitForm: the point is of the reference itself, which cannot be traced on explicit axes.
    """
    reference = sides.pair.reference_name
    on_mesh = with_primal(sides, point.direction, point.variant, on_mesh_of(sides, point.variant, on_mesh))
    alone, remark = baseline(sides, on_mesh, runs=False)
    if remark is not None:
        note(f"pair '{sides.pair.name}': {remark}")
    if point.variant == reference and sides.forward(reference, alone).error is None:
        missing = no_explicit_form(sides, point, on_mesh)
        if missing is not None:
            raise NoExplicitForm(missing)
    return Sites(alone, on_mesh)


def _prove(
    prover: Prover, derivations: BoundCache, point: Point, sites: Sites, records: Mapping[str, Record]
) -> Iterator[ProofResult]:
    """The arguments of a point's leaves; for another routing in the special record they must hold too."""
    sides = prover.sides
    try:
        ends = (sides.pair.reference_name, sites.alone), (point.variant, sites.on_mesh)
        traced = {comparison.path: comparison for comparison in other_outputs(sides, point.direction, *ends)}
        wrong = next(
            (
                comparison
                for comparison in traced.values()
                if {"structure"} & set(comparison.kinds) or comparison.path == "*"
            ),
            None,
        )
        if wrong is not None:
            yield argued(sides.pair, point, LeafOutcome(comparison=wrong, executed=False))
            return
        questions = {label: _question(prover, point, sites, record) for label, record in records.items()}
        sums = needed_by_sums(sides, point.direction, point.variant, sites.on_mesh)
        yield from _proved(prover, derivations, point, questions, traced, sums)
    except CouldNotRun as error:
        nothing = Comparison(path="*", elements=0)
        yield argued(sides.pair, point, LeafOutcome(comparison=nothing, executed=False, nothing=str(error)))


def _proved(
    prover: Prover,
    derivations: BoundCache,
    point: Point,
    questions: Mapping[str, Question],
    traced: Mapping[str, Comparison],
    sums: tuple[RequiredFact, ...],
) -> Iterator[ProofResult]:
    """By labels, where both sides only move data; else by fields."""
    pair, first = prover.sides.pair, next(iter(questions.values()))
    empty = _nothing(derivations, questions, point.direction)
    moved = [prover.movement(question) for question in questions.values()]
    why = next((movement.why for movement in moved if isinstance(movement, Unproved)), None)
    identities = None if why is None else prover.identity(questions)
    derived = _derived(derivations, questions) if isinstance(identities, Mapping) else None
    for leaf in first.outputs:
        known = identities if identities is None or isinstance(identities, Unproved) else identities[leaf]
        outcome = LeafOutcome(
            comparison=traced[leaf],
            executed=False,
            nothing=empty.get(leaf),
            elsewhere=partial(prover.counterexample, questions, leaf),
            derivatives=prover.derivatives(point.direction, point.variant, leaf),
            one_way=partial(prover.one_way, questions),
        )
        if known is None:
            kept = [movement[leaf] for movement in moved if not isinstance(movement, Unproved)]
            argument = by_labels(pair, point, outcome, kept, questions, sums)
            yield argument if prover.assuming else unassuming(argument)
        elif isinstance(known, Unproved):
            argument = argued(pair, point, replace(outcome, unproved=known.why, undefined=known.undefined))
            yield replace(argument, no_movement=why)
        else:
            assert derived is not None
            yield replace(by_fields(pair, point, outcome, known, first, derived), no_movement=why)


def _question(prover: Prover, point: Point, sites: Sites, record: Record) -> Question:
    cotangents = {}
    if point.direction == "gradient":
        cotangents = cotangents_of(prover.sides, prover.sides.pair.reference_name, sites.alone)
    return prover.question(point.direction, sites.alone, point.variant, sites.on_mesh, record, cotangents)


def _nothing(derivations: BoundCache, questions: Mapping[str, Question], direction: str) -> dict[str, str]:
    """By leaf, why nothing would be compared, as `samebits check` finds it: no elements, constants, zero gradients."""
    try:
        values = [derivations.ideal(question).values for question in questions.values()]
    except NotCovered:
        return {}
    reasons = {leaf: says_nothing([outputs[leaf] for outputs in values], leaf, direction) for leaf in values[0]}
    return {leaf: why for leaf, why in reasons.items() if why is not None}


def _derived(derivations: BoundCache, questions: Mapping[str, Question]) -> Mapping[str, Derived] | Unproved:
    try:
        return {label: derivations.sides(question) for label, question in questions.items()}
    except NotCovered as error:
        return Unproved(str(error))
