"""Documents that contradict themselves: rows that no check writes so, and a summary that is not that of its rows."""

from __future__ import annotations

from pathlib import Path

from samebits.errors import RequestError
from samebits.report.check import Document
from samebits.report.prove import ProofDocument
from samebits.report.words import verdict_counts
from samebits.schema.contract import RUNGS
from samebits.schema.finding import Finding, summarise

COUNTS = ("cases", "ok", "failed", "skipped", "exempt")


def require_consistent(path: Path, document: object) -> None:
    """Reject a document of `check`, `compare` or `prove` that contradicts itself; any other passes."""
    if not isinstance(document, (Document, ProofDocument)):
        return
    seen = set()
    for row in document.results:
        what = "is there twice" if row.place in seen else holds_wrongly(row)
        seen.add(row.place)
        if what is not None:
            raise RequestError(edited(path, row, what))
    if isinstance(document, Document):
        _require_counts(path, document)


def holds_wrongly(row: Finding) -> str | None:
    """Return what is wrong with a row that holds although its verdict does not suffice; None where nothing is."""
    if not row.ruling.ok:
        return None
    never = row.ruling.verdict in ("different", "unstable", "error") and not row.ruling.exempt
    if never or row.ruling.verdict == "skipped":
        return f"is '{row.ruling.verdict}' and ok"
    rungs = [RUNGS.index(word) for word in (row.ruling.verdict, row.ruling.required) if word in RUNGS]
    is_below = not row.ruling.exempt and len(rungs) == 2 and rungs[0] > rungs[1]
    return f"is '{row.ruling.verdict}' and ok, where '{row.ruling.required}' is required" if is_below else None


def edited(path: Path, row: Finding, what: str) -> str:
    """Return the line about a row that no check writes so."""
    place = f"'{row.place.leaf}' of '{row.place.variant}' on {row.place.mesh}, {row.place.direction}"
    return f"{path}: {place} {what}: it was edited; check again"


def _require_counts(path: Path, document: Document) -> None:
    said, counted = document.summary, summarise(document.results, selected=0, product=0, seconds=0.0)
    for name in COUNTS:
        here, rows = getattr(said, name), getattr(counted, name)
        if here != rows:
            raise RequestError(
                f"{path}: its summary says {name} {here}, and its rows come to {rows}: it was edited; check again"
            )
    shown = {verdict: count for verdict, count in said.verdicts.items() if count}
    if shown != counted.verdicts:
        raise RequestError(
            f"{path}: its summary says {verdict_counts(shown) or 'no verdicts'}, and its rows are "
            f"{verdict_counts(counted.verdicts) or 'no verdicts'}: it was edited; check again"
        )
