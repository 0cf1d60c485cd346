"""From an executed point to its results: the verdict and the record of each leaf."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from samebits.check.judge import Ruling, rule, where
from samebits.check.outcome import LeafOutcome
from samebits.check.picture import BRIEF, FULL, LeafArrays, picture
from samebits.check.runner import PointRun
from samebits.interpret.field_proof.assumptions import not_exercised, of_values
from samebits.numerics.bits import Comparison
from samebits.schema.assumption import Assumption
from samebits.schema.case import Refusal
from samebits.schema.difference import Witness
from samebits.schema.pair import Pair
from samebits.schema.picture import Picture
from samebits.schema.point import Point
from samebits.schema.result import Result, Verdict
from samebits.user_errors import one_line


def judge_run(pair: Pair, point: Point, run: PointRun, replay: str) -> list[Result]:
    """The results of a point: one per leaf."""
    return [judge(pair, point, run, outcome, replay) for outcome in run.outcomes]


def judge(pair: Pair, point: Point, run: PointRun, outcome: LeafOutcome, replay: str) -> Result:
    """The result of one executed leaf."""
    ruling, comparison = rule(pair, point, outcome), outcome.comparison
    if ruling.against_mesh:  # whose bits are equal; the evidence says what both are against one device
        comparison = Comparison(path=comparison.path, elements=comparison.elements)
    elsewhere = None if ruling.decisive is None else ruling.decisive.comparison(comparison.path)
    if elsewhere is None:
        element, label = _witness(outcome, comparison)
    else:  # what the inputs of the case show says nothing of this verdict
        assert ruling.decisive is not None and ruling.decisive.values is not None
        comparison, element, label = elsewhere, elsewhere.witness, ruling.decisive.where
        outcome = replace(outcome, evidence=None, arrays=partial(LeafArrays, {label: ruling.decisive.values}, {}))
    return Result(
        **where(point),
        pair=pair.name,
        leaf=comparison.path,
        verdict=ruling.verdict,
        required=ruling.required,
        ok=ruling.ok,
        reason=ruling.reason,
        evidence="; ".join((*filter(None, [ruling.evidence]), *_elsewhere(run), *run.remarks)) or None,
        not_interpreted=outcome.not_interpreted,
        elements=comparison.elements,
        mismatches=comparison.mismatches,
        max_ulp=comparison.max_ulp,
        kind=None if comparison.kind is None else _kind(comparison.kind, comparison.max_ulp),
        differences=comparison.differences,
        **_measured(outcome),
        assumptions=_assumptions(ruling, outcome),
        # A list, as JSON has it: a result of this process is the one that comes from a worker process.
        witness=None if element is None else {**asdict(element), "index": list(element.index), "input": label},
        picture=None if ruling.against_mesh else _picture(outcome, ruling.ok, element, label),
        magnitudes=() if ruling.elsewhere is None else ruling.elsewhere.table,
        **named_lines(ruling, outcome),
        exempt=ruling.exempt,
        undeclared=ruling.undeclared,
        machine=_machine(outcome, ruling.against_mesh),
        domain=ruling.domain,
        emulated=run.emulated,
        bits=run.bits.get(comparison.path),
        array=run.arrays.get(comparison.path),
        device_order=run.device_order,
        layout=run.layout,
        devices=run.devices,
        seconds=round(run.seconds, 4),
        sizes=ruling.sizes,
        family=outcome.family,
        proof_alone=run.executed_elsewhere is not None,
        replay=replay,
    )


def _witness(outcome: LeafOutcome, comparison: Comparison) -> tuple[Witness | None, str | None]:
    """The element that shows the verdict, and its input: the measured one before the first of its class."""
    measured = None if outcome.evidence is None else outcome.evidence.witness
    if comparison.witness is None or measured is None:
        return comparison.witness, outcome.where
    return measured


def _picture(outcome: LeafOutcome, ok: bool, element: Witness | None, label: str | None) -> Picture | None:
    """Where and how far the sides differ; in less detail where the contract accepts it."""
    if outcome.arrays is None:
        return None
    place = None if element is None or label is None else (label, element.index)
    measured = None if outcome.evidence is None else outcome.evidence.place
    known = place is not None and measured is not None and measured[0] == place[0]
    ideal = outcome.evidence.ideal if known and outcome.evidence is not None else None
    return picture(outcome.arrays(), BRIEF if ok else FULL, place, ideal)


def _elsewhere(run: PointRun) -> Iterator[str]:
    """Of a point that was not executed, where the compiler was checked instead."""
    if run.executed_elsewhere is not None:
        points = "1 other point" if run.executed_elsewhere == 1 else f"{run.executed_elsewhere} other points"
        yield f"not executed here, but at {points} of this variant and direction; --full executes all"


def named_lines(ruling: Ruling, outcome: LeafOutcome) -> dict[str, Any]:
    """The lines that make a failing leaf differ, by the names of `Result` and `ProofResult`."""
    untyped = outcome.comparison.detail is not None and not outcome.comparison.typed
    if ruling.verdict != "different" or ruling.ok or outcome.lines is None or untyped:
        return {}
    if ruling.decisive is None and outcome.promises is not None:  # as written, both sides are the same
        return {}
    named = outcome.lines(None if ruling.decisive is None else ruling.decisive.question)
    return {"lines": named.lines, "no_lines": named.why}


def _machine(outcome: LeafOutcome, against_mesh: bool) -> str | None:
    """Why another machine may have other bits, where that was asked."""
    if against_mesh:
        return "only against the reference on this mesh are the bits the same"
    independence = outcome.everywhere
    return None if independence is None or independence.holds else independence.how


def judge_refusal(
    pair: Pair, point: Point, refusal: Refusal, raised: Mapping[str, BaseException | None], replay: str
) -> Result:
    """The verdict on an expected error.

    Args:
        refusal: what the declaration promises.
        raised: by side: what it raised while tracing, None where it gave a result.
    """
    wrong = []
    for side, error in raised.items():
        if error is None:
            wrong.append(f"'{side}' gave a result; expected {refusal.error} matching '{refusal.match}'")
        elif type(error).__name__ != refusal.error or not re.search(refusal.match, str(error)):
            wrong.append(f"'{side}' {one_line(error)}; expected {refusal.error} matching '{refusal.match}'")
    return Result(
        **where(point),
        pair=pair.name,
        leaf="*",
        verdict="different" if wrong else "refused",
        required="refused",
        ok=not wrong,
        reason="; ".join(wrong) or None,
        evidence=None if wrong else f"{' and '.join(raised)} raised {refusal.error}",
        kind="other" if wrong else None,
        replay=replay,
    )


def without_leaves(pair: str, point: Point, verdict: Verdict, reason: str, replay: str) -> Result:
    """A point that gave no leaves: `error` or `skipped`, never green."""
    return Result(
        **where(point), pair=pair, leaf="*", verdict=verdict, required="bitwise", ok=False, reason=reason, replay=replay
    )


def _measured(outcome: LeafOutcome) -> dict[str, Any]:
    """The numbers of a leaf's evidence, by the names of `Result`."""
    names = ("error_ratio", "error_reference", "error_optimized", "bound", "bound_used")
    proved = outcome.identity is not None and outcome.identity.equal
    accuracy = None if outcome.evidence is None else outcome.evidence.accuracy
    over_draws = {"error_ratio_low": "low", "error_ratio_high": "high", "draws": "draws", "error_group": "group"}
    return {
        **{name: None if outcome.evidence is None else getattr(outcome.evidence, name) for name in names},
        **{name: None if accuracy is None else getattr(accuracy, attribute) for name, attribute in over_draws.items()},
        "bias": None if accuracy is None else accuracy.bias,
        "log2_error": None
        if outcome.identity is None or not proved or outcome.identity.tried
        else outcome.identity.log2_error,
    }


def _assumptions(ruling: Ruling, outcome: LeafOutcome) -> tuple[Assumption, ...]:
    """What a proof of formulas takes for granted, and the values that a verdict is for."""
    same = outcome.identity
    if not outcome.assuming and ruling.ok:
        return ()  # what holds without any is what execution shows
    taken: tuple[Assumption, ...] = ()
    if same is not None and (same.equal or ruling.verdict in ("bitwise", "rounding")):
        taken = not_exercised(same, outcome.one_way)
    if ruling.verdict == "proved" and outcome.routing and not outcome.same_program:
        taken = (*taken, of_values(outcome.routing))
    return (*taken, *ruling.noted)


def _kind(kind: str, max_ulp: int | None) -> str:
    return f"rounding ({max_ulp} ulps)" if kind == "rounding" and max_ulp is not None else kind
