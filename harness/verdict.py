"""The ladder: what was seen at a leaf becomes the highest verdict that holds, and is held against the contract."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from harness.case import Refusal
from harness.contract import Contract, Exemption
from harness.domain import in_words, not_said, unsaid
from harness.outcome import Outcome
from harness.pair import Pair
from harness.point import Point
from harness.result import Result, Verdict
from harness.runner import Run

SAME_PROGRAM = "both sides are compiled to the same program on one device, here"
"""Evidence that holds for this backend only: no reason to tighten a contract."""

_RANK = {"proved": 3, "bitwise": 2, "rounding": 1}


def judge_run(pair: Pair, point: Point, run: Run, replay: str) -> list[Result]:
    """The results of a point: one per leaf."""
    return [judge(pair, point, run, outcome, replay) for outcome in run.outcomes]


def judge(pair: Pair, point: Point, run: Run, outcome: Outcome, replay: str) -> Result:
    """The verdict on one leaf.

    A leaf that compared nothing is an `error`; one whose side does not repeat its bits is `unstable`; equal bits are
    `bitwise`; other finite floats are `rounding` when the float64 evidence says so; all else is `different`.
    """
    comparison = outcome.comparison
    leaf = comparison.path.split(" (replica")[0]
    contract = pair.contract(**where(point), leaf=leaf)
    exemption = pair.exemption(**where(point), leaf=leaf)
    verdict, evidence = _found(outcome, contract)
    if verdict == "rounding" and outcome.only_mesh and point.variant != pair.reference_name:
        evidence = f"{evidence}; the same bits as the reference on this mesh: the mesh moves them, not the variant"
    elif (
        verdict == "different"
        and outcome.only_mesh
        and outcome.evidence is None
        and point.variant != pair.reference_name
    ):
        evidence = f"{evidence}; the reference on this mesh has the same bits: suspect the sharding, which both share"
    ok, required, reason = _held_against(verdict, comparison.kind, contract, exemption)
    witness: dict[str, Any] | None = None
    if comparison.witness is not None:
        witness = {**asdict(comparison.witness), "input": outcome.where}
    return Result(
        **where(point),
        pair=pair.name,
        leaf=comparison.path,
        verdict=verdict,
        required=required,
        ok=ok,
        reason=outcome.nothing if verdict == "error" else reason,
        evidence=evidence,
        elements=comparison.elements,
        mismatches=comparison.mismatches,
        max_ulp=comparison.max_ulp,
        kind=None if comparison.kind is None else _kind(comparison.kind, comparison.max_ulp),
        **_measured(outcome),
        witness=witness,
        exempt=exemption is not None,
        domain=None if contract.domain is None else str(contract.domain),
        emulated=run.emulated,
        layout=run.layout,
        devices=run.devices,
        seconds=round(run.seconds, 4),
        replay=replay,
    )


def judge_refusal(
    pair: Pair, point: Point, refusal: Refusal, raised: Mapping[str, Exception | None], replay: str
) -> Result:
    """The verdict on a documented refusal.

    Args:
        refusal: what the declaration promises.
        raised: by side: what it raised while tracing, None where it gave a result.
    """
    wrong = []
    for side, error in raised.items():
        if error is None:
            wrong.append(f"'{side}' gave a result; expected {refusal.error} matching '{refusal.match}'")
        elif type(error).__name__ != refusal.error or not re.search(refusal.match, str(error)):
            wrong.append(
                f"'{side}' raised {type(error).__name__}: {error}; expected {refusal.error} matching '{refusal.match}'"
            )
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


def reaches(verdict: Verdict, lowest: str) -> bool:
    """Whether a verdict is at least the rung that a contract names."""
    return _RANK.get(verdict, 0) >= _RANK[lowest]


def where(point: Point) -> dict[str, Any]:
    """A point as keyword arguments."""
    return {name: getattr(point, name) for name in Point.__slots__}


def _found(outcome: Outcome, contract: Contract) -> tuple[Verdict, str | None]:
    comparison = outcome.comparison
    if outcome.nothing is not None:
        return "error", None
    if outcome.unstable is not None:
        return "unstable", f"'{outcome.unstable}' gave other bits when run again on the same input"
    if comparison.equal:
        return _equal(outcome, contract)
    if outcome.evidence is not None:
        sentence = outcome.evidence.sentence(contract.error_ratio)
        if outcome.promises is not None:
            sentence += "; as written both sides only move data, so it is the compiler that rounds"
        return ("rounding" if outcome.evidence.is_rounding(contract.error_ratio) else "different"), sentence
    if comparison.detail is not None:
        return "different", f"{comparison.kind}: {comparison.detail}"
    text = f"{comparison.kind} in {comparison.mismatches} of {comparison.elements} elements"
    if outcome.promises is not None:
        text += "; as written both sides only move data, so it is the compiler that does more"
    if outcome.no_evidence is not None:
        text += f"; could not be held against float64: {outcome.no_evidence}"
    return "different", text


def _equal(outcome: Outcome, contract: Contract) -> tuple[Verdict, str | None]:
    """Equal bits: proved where one program gave them, or where labels prove it for inputs that the contract states."""
    if outcome.same_program:
        return "proved", SAME_PROGRAM
    same = outcome.identity
    if same is not None and not same.equal and not same.undecided:
        return "different", f"not the same mathematics: {same.witness}; only on the inputs tried are the bits the same"
    if outcome.promises is None:
        return "bitwise", None if same is None or not same.equal else f"the same formulas ({same.probability})"
    how = "both sides only move data, each element from the same place"
    if outcome.routing:
        how += f", for the values of {' and '.join(outcome.routing)} tried"
    missing = unsaid(contract.domain, outcome.promises)
    if missing:
        return "bitwise", f"would be proved for: {in_words(missing)}; {not_said(missing)}"
    return "proved", how + (f"; domain: {in_words(outcome.promises)}" if outcome.promises else "")


def _held_against(
    verdict: Verdict, kind: str | None, contract: Contract, exemption: Exemption | None
) -> tuple[bool, str, str | None]:
    """Whether a verdict suffices, what was required, and the reason on record for accepting less than `bitwise`."""
    if exemption is None:
        return reaches(verdict, contract.lowest), contract.lowest, contract.reason
    if verdict == "error":
        return False, exemption.verdict, exemption.reason
    if verdict == exemption.verdict and exemption.kind in (None, kind):
        return True, exemption.verdict, exemption.reason
    expected = exemption.verdict + (f" ({exemption.kind})" if exemption.kind else "")
    got = verdict + (f" ({kind})" if kind else "")
    return (
        False,
        exemption.verdict,
        f"the exemption expects '{expected}' and '{got}' came out; change or remove it: {exemption.reason}",
    )


def _measured(outcome: Outcome) -> dict[str, Any]:
    """The numbers of a leaf's evidence, by the names of `Result`."""
    names = ("error_ratio", "error_reference", "error_optimized", "bound", "bound_used")
    proved = outcome.identity is not None and outcome.identity.equal
    return {
        **{name: None if outcome.evidence is None else getattr(outcome.evidence, name) for name in names},
        "log2_error": outcome.identity.log2_error if proved and outcome.identity is not None else None,
    }


def _kind(kind: str, max_ulp: int | None) -> str:
    return f"rounding ({max_ulp} ulps)" if kind == "rounding" and max_ulp is not None else kind
