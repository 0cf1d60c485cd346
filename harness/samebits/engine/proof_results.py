"""A proof of one leaf as the result that is published: judged as in `samebits check`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from samebits.check.derived_bounds import Derived, doubt
from samebits.check.judge import rule, where
from samebits.check.outcome import LeafOutcome
from samebits.interpret.field_proof.assumptions import not_exercised, of_movement
from samebits.interpret.field_proof.proof import FieldIdentity
from samebits.interpret.given_integers import like_given
from samebits.interpret.label_proof import LabelIdentity
from samebits.interpret.problem import Question
from samebits.interpret.rounding_error.estimate import ErrorEstimate
from samebits.programs.inputs import Array
from samebits.prove.problem import facts_not_kept
from samebits.prove.prover import Unproved
from samebits.schema.assumption import Assumption, words_of
from samebits.schema.domain import RequiredFact, in_words
from samebits.schema.pair import Pair
from samebits.schema.point import Point
from samebits.schema.proof import ProofResult
from samebits.schema.result import Result


def by_labels(
    pair: Pair,
    point: Point,
    outcome: LeafOutcome,
    identities: list[LabelIdentity],
    questions: Mapping[str, Question],
    sums: tuple[RequiredFact, ...],
) -> ProofResult:
    """The result of a leaf where labels decide whether both sides move the same elements."""
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
    argument = argued(pair, point, outcome)
    routing = like_given(first, first.routing)
    taken = () if wrong else of_movement(in_words(promises) or None, routing, products)
    return replace(
        argument,
        method="labels",
        words=tuple(str(promise) for promise in promises),
        unkept=tuple(str(promise) for promise in outcome.unkept),
        domain=in_words(promises) or None,
        routing=first.routing,
        products=products,
        assumptions=(*taken, *argument.assumptions),
    )


def unassuming(argument: ProofResult) -> ProofResult:
    """The same, without a verdict where it rests on assumptions."""
    words = words_of(argument.assumptions)
    if argument.verdict != "proved" or not words:
        return argument
    why = f"the proof rests on assumptions ({words}), and none are accepted"
    return replace(argument, verdict="error", ok=False, reason=why, sizes=None)


def assuming_devices(argument: ProofResult, counts: Sequence[str], mesh: str) -> ProofResult:
    """The same, taking for granted what code was told of the devices of this process.

    Args:
        argument: the proof.
        counts: what it was told.
        mesh: that the proof is for.
    """
    if argument.verdict not in ("proved", "rounding"):
        return argument
    otherwise = f"the process has other devices, as one that has those of {mesh}"
    return replace(
        argument, assumptions=(*argument.assumptions, *(Assumption("devices", text, otherwise) for text in counts))
    )


def by_fields(
    pair: Pair,
    point: Point,
    outcome: LeafOutcome,
    identity: FieldIdentity,
    question: Question,
    derived: Mapping[str, Derived] | Unproved,
) -> ProofResult:
    """The result of a leaf where the fields decide whether both sides compute the same formula."""
    leaf = outcome.comparison.path
    limit = pair.accuracy_of(pair.contract(**where(point), leaf=leaf))
    unsure = None
    if identity.equal and outcome.comparison.equal:
        unsure = derived.why if isinstance(derived, Unproved) else doubt(derived, leaf, limit)
    argument = argued(pair, point, replace(outcome, identity=identity, doubt=unsure))
    argument = replace(
        argument,
        method="fields",
        routing=question.fixed,
        log2_error=None if identity.tried else identity.log2_error,
        points=identity.repetitions,
        degree=identity.degree,
        unknown=identity.unknown,
        constants=identity.constants,
        assumptions=(*not_exercised(identity, outcome.one_way), *argument.assumptions),
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


def argued(pair: Pair, point: Point, outcome: LeafOutcome) -> ProofResult:
    """The argument of a leaf, judged."""
    ruling, same = rule(pair, point, outcome), outcome.identity
    seen = None if outcome.comparison.typed else outcome.apart or (None if same is None else same.witness)
    wrong: Any = seen or ruling.evidence
    return ProofResult(
        **where(point),
        leaf=outcome.comparison.path,
        verdict=ruling.verdict,
        required=ruling.required,
        ok=ruling.ok,
        exempt=ruling.exempt,
        undeclared=ruling.undeclared,
        elements=outcome.comparison.elements,
        witness=wrong if ruling.verdict == "different" else None,
        reason=ruling.reason,
        assumptions=ruling.noted,
        sizes=ruling.sizes,
        family=outcome.family,
    )


def of_result(result: Result, seconds: float) -> ProofResult:
    """A result of what was only traced, as the argument that it is."""
    return ProofResult(
        **{name: getattr(result, name) for name in ("pair", *Point.__slots__, "leaf", "verdict", "required", "ok")},
        method="trace",
        reason=result.reason,
        witness=result.reason if result.verdict == "different" else None,
        seconds=seconds,
        replay=result.replay,
    )
