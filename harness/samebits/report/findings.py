"""Reads the findings of a document of any command, which comparisons, JUnit and annotations read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, get_args

from samebits.errors import RequestError
from samebits.report.words import typed
from samebits.schema.contract import COMPUTES, MOVES
from samebits.schema.document_claim import Holds
from samebits.schema.finding import Finding, Place, Ruling
from samebits.schema.result import VERDICTS, Problem

JUDGING = (
    *("check", "prove", "prove model", "compile", "compile model", "tune", "train", "golden check"),
    *("claims", "faults", "bisect", "defaults", "advise"),
)
"""The commands whose documents have findings."""

PARTS = tuple(part.name for part in fields(Place))

_ORDERS: tuple[Iterable[str], ...] = (
    VERDICTS,
    ("compiled",),
    ("proved", "bitwise", "refused", "same program", "another program"),
    ("same", "inside"),
    get_args(Holds),
    ("caught", "caught by its snapshot"),
    ("compute-bound",),
)
"""Words of each command, the best first; what is in none of them comes last."""

_RANKS = {word: rank for order in _ORDERS for rank, word in enumerate(order)}


def findings(document: Any) -> list[Finding]:
    """Return what a document says about each thing that its command judged."""
    if document.command not in JUDGING:
        raise RequestError(
            f"documents of `{typed(document.command)}` have no verdicts to compare; expected one of "
            f"{', '.join(typed(command).removeprefix('samebits ') for command in JUDGING)}"
        )
    return [*document.as_findings()]


def problem_findings(problems: Iterable[Problem]) -> list[Finding]:
    """Return what could not be judged at all."""
    listed: list[Finding] = []
    for problem in problems:
        name = "declaration" if problem.exit_code == 2 else "run"
        repeated = sum(each.place.pair == problem.pair and each.place.item.startswith(name) for each in listed)
        place = Place(pair=problem.pair, item=f"{name} {repeated + 1}" if repeated else name)
        verdict = "not as declared" if problem.exit_code == 1 else "not checked"
        listed.append(judged("", place, verdict, ok=False, evidence=" ".join(problem.message.split())))
    return listed


def rank(finding: Finding) -> int:
    """Return how good a verdict is, by which two of one thing are compared; lower is better."""
    return _RANKS.get(finding.ruling.verdict, len(VERDICTS))


def verdict_words(finding: Finding) -> str:
    """Return the verdict in words: what a proof does not reach is refuted or not proved."""
    if not finding.tool.startswith("prove") or finding.ruling.ok:
        return finding.ruling.verdict
    return "refuted" if finding.refutes else "not proved"


def promise(finding: Finding) -> str:
    """Return what is required, and the declared reason; a difference of either is a decision of a person."""
    ruling = finding.ruling
    known = " (a known difference)" if ruling.exempt else ""
    # The reason of an error is what happened, and not part of the declaration.
    why = f": {ruling.reason}" if ruling.reason and ruling.verdict != "error" else ""
    return f"{ruling.required}{known}{why}"


def declared_otherwise(finding: Finding, before: Finding) -> bool:
    """Return whether the declaration requires something else than before; a default follows what was proved."""
    return promise(finding) != promise(before) and not (_is_default(finding.ruling) and _is_default(before.ruling))


def _is_default(ruling: Ruling) -> bool:
    """Return whether no contract was declared; of an older document, whether the row is as if there were none."""
    if ruling.undeclared is not None or ruling.exempt:
        return bool(ruling.undeclared)
    return (ruling.required, ruling.reason) in [(usual.lowest, usual.reason) for usual in (MOVES, COMPUTES)]


def what_was_found(finding: Finding) -> str | None:
    """Return the witness of what does not suffice, else why the contract accepts it."""
    if finding.tool not in ("check", "prove"):
        return finding.ruling.evidence
    seen = finding.comparison.witness
    witness = finding.proof.refutation or (None if seen is None else seen.said(finding.place.variant))
    return finding.ruling.reason if witness is None or finding.ruling.verdict == "error" else witness


def place_of(record: object, **more: str) -> Place:
    """Return the place of a record that has some of the parts as attributes."""
    parts = {name: getattr(record, name) for name in PARTS if hasattr(record, name)}
    return Place(**{**parts, **more})


def judged(
    tool: str,
    place: Place,
    verdict: Any,
    *,
    ok: bool = True,
    evidence: str | None = None,
    required: str = "",
    why: str = "",
    **more: Any,
) -> Finding:
    """Return a finding in a command's own words."""
    ruling = Ruling(verdict=verdict, required=required, ok=ok, reason=why or None, evidence=evidence)
    return Finding(tool=tool, place=place, ruling=ruling, **more)


def words_of(choice: Mapping[str, str]) -> str:
    """Return the parts of a model with their variants, on one line."""
    return " ".join(f"{name}={variant}" for name, variant in choice.items())
