"""`samebits prove`: every point of a plan put to proof, without compiling anything and without devices.

Each proof becomes a `LeafOutcome` that was not executed, and is judged as in `samebits check`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from samebits.check.derived_bounds import BoundCache, Derived, doubt
from samebits.check.expected_errors import errors_raised
from samebits.check.judge import rule, where
from samebits.check.outcome import LeafOutcome, says_nothing
from samebits.check.sites import no_explicit_form
from samebits.check.verdict import judge_refusal, without_leaves
from samebits.engine.prove_lines import RefutedLines
from samebits.errors import CouldNotRun, NoExplicitForm, NotCovered
from samebits.host.isolation import note
from samebits.interpret.field_proof.assumptions import of_movement
from samebits.interpret.field_proof.proof import FieldIdentity
from samebits.interpret.label_proof import LabelIdentity
from samebits.interpret.problem import Question
from samebits.interpret.rounding_error.estimate import ErrorEstimate
from samebits.numerics.bits import Comparison
from samebits.programs.alone import baseline, on_mesh_of
from samebits.programs.catalogue import Locator
from samebits.programs.inputs import Array, Record, records
from samebits.programs.plan import Plan
from samebits.programs.program_cache import Programs
from samebits.programs.replay import replay
from samebits.programs.sides import Site, TracedSides
from samebits.prove.partitioned_gather import needed_by_sums
from samebits.prove.problem import cotangents_of, facts_not_kept, other_outputs
from samebits.prove.prover import Prover, Unproved
from samebits.prove.selftest import check_proofs
from samebits.schema.assumption import words_of
from samebits.schema.domain import RequiredFact, in_words
from samebits.schema.meshes import MeshSpec
from samebits.schema.pair import Pair
from samebits.schema.point import Point
from samebits.schema.proof import ProofResult
from samebits.schema.result import Result, Verdict


@dataclass(frozen=True, slots=True)
class _Sites:
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
    import jax

    check_proofs()
    pair.check_domains()
    programs = Programs(threads=1)
    sides = TracedSides(pair, programs)
    target = platform or jax.default_backend()
    prover, derivations = Prover(sides, target, assuming=assuming), BoundCache(target)
    lines = RefutedLines(prover)
    kept: dict[tuple[str, str, str], dict[str, Record]] = {}
    try:
        for point in plan.points:
            case, mesh = pair.case(point.case), MeshSpec.parse(point.mesh)
            built, again = mesh.abstract(point.mode), replay(locator, point, "prove")
            begin = time.perf_counter()
            refusal = case.refusal(point.variant)
            if refusal is not None:
                judged = judge_refusal(pair, point, refusal, errors_raised(sides, point, refusal, built), again)
                yield _of_result(judged, round(time.perf_counter() - begin, 4))
                continue
            key = (point.case, point.dtype, point.mesh)
            if key not in kept:
                kept = {key: records(pair, case, point.dtype, mesh)}
            on_mesh = Site(case=case, dtype=point.dtype, mesh=mesh, mode=point.mode, built=built)
            try:
                sites = _sites(sides, point, on_mesh)
            except CouldNotRun as error:
                verdict: Verdict = "skipped" if isinstance(error, NoExplicitForm) else "error"
                yield _of_result(without_leaves(pair.name, point, verdict, str(error), again), 0.0)
                continue
            arguments = _prove(prover, derivations, point, sites, kept[key])
            proofs = lines.named(point, (sites.alone, sites.on_mesh), kept[key], arguments)
            seconds = round((time.perf_counter() - begin) / max(len(proofs), 1), 4)
            for argument in proofs:
                yield argument.held(pair=pair.name, seconds=seconds, replay=again)
    finally:
        programs.close()


def _sites(sides: TracedSides, point: Point, on_mesh: Site) -> _Sites:
    """Where the reference alone and the variant are traced.

    Raises:
        CouldNotRun: a side is bound to another mesh than that of the point.
        NoExplicitForm: the point is of the reference itself, which cannot be traced on explicit axes.
    """
    reference = sides.pair.reference_name
    on_mesh = on_mesh_of(sides, point.variant, on_mesh)
    alone, remark = baseline(sides, on_mesh, runs=False)
    if remark is not None:
        note(f"pair '{sides.pair.name}': {remark}")
    if point.variant == reference and sides.forward(reference, alone).error is None:
        missing = no_explicit_form(sides, point, on_mesh)
        if missing is not None:
            raise NoExplicitForm(missing)
    return _Sites(alone, on_mesh)


def _prove(
    prover: Prover, derivations: BoundCache, point: Point, sites: _Sites, records: Mapping[str, Record]
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
            yield _argued(sides.pair, point, LeafOutcome(comparison=wrong, executed=False))
            return
        questions = {label: _question(prover, point, sites, record) for label, record in records.items()}
        sums = needed_by_sums(sides, point.direction, point.variant, sites.on_mesh)
        yield from _proved(prover, derivations, point, questions, traced, sums)
    except CouldNotRun as error:
        nothing = Comparison(path="*", elements=0)
        yield _argued(sides.pair, point, LeafOutcome(comparison=nothing, executed=False, nothing=str(error)))


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
    identities = None if why is None else prover.identity(first)
    derived = _derived(derivations, questions) if isinstance(identities, Mapping) else None
    for leaf in first.outputs:
        outcome = LeafOutcome(comparison=traced[leaf], executed=False, nothing=empty.get(leaf))
        if identities is None:
            kept = [movement[leaf] for movement in moved if not isinstance(movement, Unproved)]
            argument = _by_labels(pair, point, outcome, kept, questions, sums)
            yield argument if prover.assuming else _unassuming(argument)
        elif isinstance(identities, Unproved):
            argument = _argued(pair, point, replace(outcome, unproved=identities.why))
            yield replace(argument, no_movement=why)
        else:
            assert derived is not None
            yield replace(_by_fields(pair, point, outcome, identities[leaf], first, derived), no_movement=why)


def _question(prover: Prover, point: Point, sites: _Sites, record: Record) -> Question:
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


def _by_labels(
    pair: Pair,
    point: Point,
    outcome: LeafOutcome,
    identities: list[LabelIdentity],
    questions: Mapping[str, Question],
    sums: tuple[RequiredFact, ...],
) -> ProofResult:
    first = next(iter(questions.values()))
    wrong = next((identity for identity in identities if not identity.equal), None)
    promises = tuple(dict.fromkeys((*(promise for identity in identities for promise in identity.promises), *sums)))
    products = any(identity.products for identity in identities)
    outcome = replace(
        outcome,
        apart=None if wrong is None else wrong.witness,
        promises=promises if wrong is None else None,
        unkept=facts_not_kept(promises, questions.values()),
        routing=first.routing,
    )
    return replace(
        _argued(pair, point, outcome),
        method="labels",
        words=tuple(str(promise) for promise in promises),
        unkept=tuple(str(promise) for promise in outcome.unkept),
        domain=in_words(promises) or None,
        routing=first.routing,
        products=products,
        assumptions=() if wrong else of_movement(in_words(promises) or None, first.routing, products),
    )


def _unassuming(argument: ProofResult) -> ProofResult:
    """The same, without a verdict where it rests on assumptions."""
    words = words_of(argument.assumptions)
    if argument.verdict != "proved" or not words:
        return argument
    why = f"the proof rests on assumptions ({words}), and none are accepted"
    return replace(argument, verdict="error", ok=False, reason=why)


def _by_fields(
    pair: Pair,
    point: Point,
    outcome: LeafOutcome,
    identity: FieldIdentity,
    question: Question,
    derived: Mapping[str, Derived] | Unproved,
) -> ProofResult:
    leaf = outcome.comparison.path
    limit = pair.contract(**where(point), leaf=leaf).error_ratio
    unsure = None
    if identity.equal and outcome.comparison.equal:
        unsure = derived.why if isinstance(derived, Unproved) else doubt(derived, leaf, limit)
    argument = replace(
        _argued(pair, point, replace(outcome, identity=identity, doubt=unsure)),
        method="fields",
        routing=question.fixed,
        log2_error=identity.log2_error,
        points=identity.repetitions,
        degree=identity.degree,
        unknown=identity.unknown,
        constants=identity.constants,
        assumptions=identity.assumptions,
    )
    if not identity.equal or isinstance(derived, Unproved):
        return argument
    first, second = (side.bounds for side in next(iter(derived.values())))
    bounds = [_relative(judged, judged.bounds, leaf) for judged in (first, second)]
    likely = _relative(second, second.likely, leaf)
    return argument.with_bounds(bounds[0], bounds[1], likely, second.loses_most.get(leaf))


def _relative(judged: ErrorEstimate, errors: Mapping[str, Array], leaf: str) -> float | None:
    """The largest error relative to the largest value; None where it is not bounded."""
    values, error = judged.values.get(leaf), errors.get(leaf)
    if values is None or error is None or not np.all(np.isfinite(error)):
        return None
    largest = float(np.max(np.abs(values), initial=0.0))
    return float(np.max(error, initial=0.0)) / largest if largest else None


def _argued(pair: Pair, point: Point, outcome: LeafOutcome) -> ProofResult:
    """The argument of a leaf, judged."""
    ruling, same = rule(pair, point, outcome), outcome.identity
    wrong: Any = outcome.apart or (None if same is None else same.witness) or ruling.evidence
    return ProofResult(
        **where(point),
        leaf=outcome.comparison.path,
        verdict=ruling.verdict,
        required=ruling.required,
        ok=ruling.ok,
        exempt=ruling.exempt,
        elements=outcome.comparison.elements,
        witness=wrong if ruling.verdict == "different" else None,
        reason=ruling.reason,
    )


def _of_result(result: Result, seconds: float) -> ProofResult:
    """A result of what was only traced, as the argument that it is."""
    return ProofResult(
        **{name: getattr(result, name) for name in ("pair", *Point.__slots__, "leaf", "verdict", "required", "ok")},
        method="trace",
        reason=result.reason,
        witness=result.reason if result.verdict == "different" else None,
        seconds=seconds,
        replay=result.replay,
    )
