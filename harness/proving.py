"""`samebits prove`: every point of a plan put to proof, without compiling anything and without devices."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from harness.argument import Argument
from harness.canary import check_proofs
from harness.catalogue import Locator
from harness.domain import Needed, in_words, not_said, unsaid
from harness.errors import CouldNotRun, NotCovered
from harness.inputs import Array, Record, records
from harness.interpret.accuracy import Judged, judge_program
from harness.interpret.identity import Identity
from harness.interpret.movement import Movement
from harness.interpret.question import Question
from harness.meshes import MeshSpec
from harness.pair import Pair
from harness.point import Point
from harness.programs import Programs
from harness.proofs import cotangents_of
from harness.prover import Prover, Unproved
from harness.replay import replay
from harness.selection import Plan
from harness.sides import Sides, Site
from harness.verdict import reaches, where

TARGET = "cpu"
"""Whose products of matrices the rounding bounds are for: float32 products that keep float32."""


@dataclass(frozen=True, slots=True)
class _Sites:
    alone: Site
    on_mesh: Site


def prove_points(pair: Pair, locator: Locator, plan: Plan) -> Iterator[Argument]:
    """What can be proved of each leaf of each point; points that must be refused have nothing to prove.

    Raises:
        DeclarationError: the two sides cannot stand in for each other.
        CheckerBroken: the proofs do not see planted differences.
    """
    check_proofs()
    pair.check_domains()
    programs = Programs(threads=1)
    sides = Sides(pair, programs)
    prover = Prover(sides, platform=None)
    kept: dict[tuple[str, str, str], dict[str, Record]] = {}
    try:
        for point in plan.points:
            case, mesh = pair.case(point.case), MeshSpec.parse(point.mesh)
            if case.refusal(point.variant) is not None:
                continue
            key = (point.case, point.dtype, point.mesh)
            if key not in kept:
                kept = {key: records(pair, case, point.dtype, mesh)}
            built = mesh.abstract(point.mode)
            alone, on_mesh = (
                Site(case=case, dtype=point.dtype, mesh=mesh, mode=point.mode, built=on) for on in (None, built)
            )
            begin = time.perf_counter()
            found = list(_prove(prover, point, _Sites(alone, on_mesh), kept[key]))
            seconds = (time.perf_counter() - begin) / max(len(found), 1)
            for argument in found:
                yield _held(pair, point, argument, round(seconds, 4), replay(locator, point, "prove"))
    finally:
        programs.close()


def _prove(prover: Prover, point: Point, sites: _Sites, records: Mapping[str, Record]) -> Iterator[Argument]:
    """The arguments of a point's leaves; for another routing in the special record they must hold too."""
    try:
        asked = [_question(prover, point, sites, record) for record in records.values()]
        moved = [prover.movement(one) for one in asked]
        if not any(isinstance(one, Unproved) for one in moved):
            for leaf in asked[0].outputs:
                yield _by_labels(point, leaf, [one[leaf] for one in moved if not isinstance(one, Unproved)], asked[0])
            return
        why = next(one.why for one in moved if isinstance(one, Unproved))
        identities = prover.identity(asked[0])
        for leaf in asked[0].outputs:
            if isinstance(identities, Unproved):
                yield Argument(**where(point), leaf=leaf, verdict="error", reason=identities.why, no_movement=why)
            else:
                yield _by_fields(point, leaf, identities[leaf], asked[0], why)
    except CouldNotRun as error:
        yield Argument(**where(point), leaf="*", verdict="error", reason=str(error))


def _question(prover: Prover, point: Point, sites: _Sites, record: Record) -> Question:
    cotangents = {}
    if point.direction == "gradient":
        cotangents = cotangents_of(prover.sides, prover.sides.pair.reference_name, sites.alone)
    return prover.question(point.direction, sites.alone, point.variant, sites.on_mesh, record, cotangents)


def _by_labels(point: Point, leaf: str, found: list[Movement], asked: Question) -> Argument:
    wrong = next((one for one in found if not one.equal), None)
    promises = tuple(dict.fromkeys(promise for one in found for promise in one.promises))
    return Argument(
        **where(point),
        leaf=leaf,
        verdict="proved" if wrong is None else "different",
        method="labels",
        elements=found[0].elements,
        words=tuple(str(promise) for promise in promises),
        domain=in_words(promises) or None,
        routing=asked.routing,
        products=any(one.products for one in found),
        witness=None if wrong is None else wrong.witness,
    )


def _by_fields(point: Point, leaf: str, found: Identity, asked: Question, why: str) -> Argument:
    argument = Argument(
        **where(point),
        leaf=leaf,
        verdict="rounding" if found.equal else "error" if found.undecided else "different",
        method="fields",
        elements=found.elements,
        routing=asked.fixed,
        log2_error=found.log2_error,
        points=found.repetitions,
        degree=found.degree,
        unknown=found.unknown,
        witness=None if found.equal else found.witness,
        no_movement=why,
        reason="the fields do not know every law of the functions in it" if found.undecided else None,
    )
    return _with_bounds(argument, leaf, asked) if found.equal else argument


def _with_bounds(argument: Argument, leaf: str, asked: Question) -> Argument:
    """How far rounding can take either side, at the inputs of the case."""
    inputs = [one.values for one in asked.inputs]
    try:
        first, second = (judge_program(p, asked, inputs, TARGET) for p in (asked.reference, asked.variant))
    except NotCovered:
        return argument
    bounds = [_relative(judged, judged.bounds, leaf) for judged in (first, second)]
    return argument.with_bounds(
        bounds[0], bounds[1], _relative(second, second.likely, leaf), second.loses_most.get(leaf)
    )


def _relative(judged: Judged, errors: Mapping[str, Array], leaf: str) -> float | None:
    """The largest error relative to the largest value; None where it is not bounded."""
    values, error = judged.values.get(leaf), errors.get(leaf)
    if values is None or error is None or not np.all(np.isfinite(error)):
        return None
    largest = float(np.max(np.abs(values), initial=0.0))
    return float(np.max(error, initial=0.0)) / largest if largest else None


def _held(pair: Pair, point: Point, argument: Argument, seconds: float, again: str) -> Argument:
    """An argument held against the contract of its leaf."""
    contract = pair.contract(**where(point), leaf=argument.leaf)
    missing = unsaid(contract.domain, map(Needed.parse, argument.words))
    reached = reaches(argument.verdict, contract.lowest) and not (missing and contract.lowest == "proved")
    reason = argument.reason
    if missing:
        reason = f"holds for: {argument.domain}; {not_said(missing)}"
    return argument.held(
        pair=pair.name, required=contract.lowest, ok=reached, reason=reason, seconds=seconds, replay=again
    )
