"""From an executed point to its results: the verdict and the record of each leaf."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

from samebits.check.judge import Ruled, rule
from samebits.check.outcome import LeafOutcome
from samebits.check.picture import BRIEF, FULL, LeafArrays, picture
from samebits.check.runner import PointRun
from samebits.interpret.field_proof.result import not_exercised, of_values
from samebits.numerics.bits import Comparison
from samebits.schema.assumption import Assumption
from samebits.schema.case import Refusal
from samebits.schema.difference import Witness
from samebits.schema.finding import Compared, Errors, Finding, Proof, Ruling, at
from samebits.schema.line_difference import NamedLines
from samebits.schema.pair import Pair
from samebits.schema.picture import Picture
from samebits.schema.point import Point
from samebits.schema.result import Verdict
from samebits.user_errors import one_line


def judge_run(pair: Pair, point: Point, run: PointRun, replay: str) -> list[Finding]:
    """Return the results of a point: one per leaf."""
    return [judge(pair, point, run, outcome, replay) for outcome in run.outcomes]


def judge(pair: Pair, point: Point, run: PointRun, outcome: LeafOutcome, replay: str) -> Finding:
    """Return the result of one executed leaf."""
    ruled, comparison = rule(pair, point, outcome), outcome.comparison
    if ruled.against_mesh:  # whose bits are equal; the evidence says what both are against one device
        comparison = Comparison(path=comparison.path, elements=comparison.elements)
    elsewhere = None if ruled.decisive is None else ruled.decisive.comparison(comparison.path)
    if elsewhere is None:
        element = _witness(outcome, comparison)
    else:  # what the inputs of the case show says nothing of this verdict
        assert ruled.decisive is not None and ruled.decisive.values is not None
        comparison, label = elsewhere, ruled.decisive.where
        element = None if elsewhere.witness is None else replace(elsewhere.witness, input=label)
        outcome = replace(outcome, evidence=None, arrays=partial(LeafArrays, {label: ruled.decisive.values}, {}))
    named = named_lines(ruled, outcome)
    words = (ruled.ruling.evidence, *_elsewhere(run), outcome.budget.missed, *run.remarks)
    evidence = "; ".join(filter(None, words)) or None
    errors = Errors() if outcome.evidence is None else outcome.evidence.errors
    return Finding(
        place=at(pair.name, point, comparison.path),
        ruling=replace(ruled.ruling, evidence=evidence),
        comparison=Compared(
            elements=comparison.elements,
            mismatches=comparison.mismatches,
            max_ulp=comparison.max_ulp,
            kind=None if comparison.kind is None else _kind(comparison.kind, comparison.max_ulp),
            differences=comparison.differences,
            witness=element,
            picture=None if ruled.against_mesh else _picture(outcome, ruled.ruling.ok, element),
            array=run.arrays.get(comparison.path),
            bits=run.bits.get(comparison.path),
        ),
        accuracy=replace(errors, magnitudes=() if ruled.elsewhere is None else ruled.elsewhere.table),
        proof=Proof(
            log2_error=_log2_error(outcome),
            assumptions=_assumptions(ruled, outcome),
            sizes=ruled.sizes,
            family=outcome.family,
            alone=run.executed_elsewhere is not None,
            not_interpreted=outcome.not_interpreted,
        ),
        named=named,
        run=run.executed,
        seconds=round(run.seconds, 4),
        replay=replay,
    )


def _witness(outcome: LeafOutcome, comparison: Comparison) -> Witness | None:
    """Return the element that shows the verdict, with its input: the measured one before the first of its class."""
    measured = None if outcome.evidence is None else outcome.evidence.witness
    if comparison.witness is None:
        return None
    element, label = (comparison.witness, outcome.where) if measured is None else measured
    return replace(element, input=label)


def _picture(outcome: LeafOutcome, ok: bool, element: Witness | None) -> Picture | None:
    """Return where and how far the sides differ; in less detail where the contract accepts it."""
    if outcome.arrays is None:
        return None
    place = None if element is None or element.input is None else (element.input, element.index)
    measured = None if outcome.evidence is None else outcome.evidence.place
    known = place is not None and measured is not None and measured[0] == place[0]
    ideal = outcome.evidence.ideal if known and outcome.evidence is not None else None
    return picture(outcome.arrays(), BRIEF if ok else FULL, place, ideal)


def _elsewhere(run: PointRun) -> Iterator[str]:
    """Say of what a point that was not executed is proved, and where the compiler was checked in its place."""
    if run.executed_elsewhere is not None:
        points = "1 other point" if run.executed_elsewhere == 1 else f"{run.executed_elsewhere} other points"
        where = f"not executed here, but at {points} of this variant and direction"
        yield f"of the program as written: {where}; --full executes all"


def named_lines(ruled: Ruled, outcome: LeafOutcome) -> NamedLines:
    """Return the lines that make a failing leaf differ."""
    untyped = outcome.comparison.detail is not None and not outcome.comparison.typed
    if ruled.ruling.verdict != "different" or ruled.ruling.ok or outcome.lines is None or untyped:
        return NamedLines()
    if ruled.decisive is None and outcome.promises is not None:  # as written, both sides are the same
        return NamedLines()
    at = None if ruled.decisive is None else ruled.decisive.question
    return outcome.budget.within("lines", partial(outcome.lines, at), NamedLines())


def judge_refusal(
    pair: Pair, point: Point, refusal: Refusal, raised: Mapping[str, BaseException | None], replay: str
) -> Finding:
    """Return the verdict on an expected error.

    Args:
        raised: by side: what it raised while tracing, None where it gave a result.
    """
    wrong = []
    for side, error in raised.items():
        if error is None:
            wrong.append(f"'{side}' gave a result; expected {refusal.error} matching '{refusal.match}'")
        elif type(error).__name__ != refusal.error or not re.search(refusal.match, str(error)):
            wrong.append(f"'{side}' {one_line(error)}; expected {refusal.error} matching '{refusal.match}'")
    return Finding(
        place=at(pair.name, point),
        ruling=Ruling(
            verdict="different" if wrong else "refused",
            required="refused",
            ok=not wrong,
            reason="; ".join(wrong) or None,
            evidence=None if wrong else f"{' and '.join(raised)} raised {refusal.error}",
        ),
        comparison=Compared(kind="other" if wrong else None),
        replay=replay,
    )


def without_leaves(pair: str, point: Point, verdict: Verdict, reason: str, replay: str) -> Finding:
    """Return a point that gave no leaves: `error` or `skipped`, never green."""
    ruling = Ruling(verdict=verdict, required="bitwise", ok=False, reason=reason)
    return Finding(place=at(pair, point), ruling=ruling, replay=replay)


def _log2_error(outcome: LeafOutcome) -> float | None:
    """Return the base-two logarithm of the probability that equal formulas are an accident."""
    same = outcome.identity
    return None if same is None or not same.equal or same.tried else same.log2_error


def _assumptions(ruled: Ruled, outcome: LeafOutcome) -> tuple[Assumption, ...]:
    """Return what a proof of formulas takes for granted, and the values that a verdict is for."""
    same = outcome.identity
    if not outcome.assuming and ruled.ruling.ok:
        return ()  # what holds without any is what execution shows
    taken: tuple[Assumption, ...] = ()
    if same is not None and (same.equal or ruled.ruling.verdict in ("bitwise", "rounding")):
        taken = not_exercised(same, outcome.one_way)
    if ruled.ruling.verdict == "proved" and outcome.routing and not outcome.same_program:
        taken = (*taken, of_values(outcome.routing))
    return (*taken, *ruled.noted)


def _kind(kind: str, max_ulp: int | None) -> str:
    return f"rounding ({max_ulp} ulps)" if kind == "rounding" and max_ulp is not None else kind
