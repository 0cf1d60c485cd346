"""Planted faults on a page: what no check caught first, then every mutant with the line that caught it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from samebits.audit.faults.fault import FaultRow
from samebits.report.faults import FaultTable, closing, outcome, state_of_faults
from samebits.report.html.section import Section, render

STATES = {
    "caught": ("✓", "passed"),
    "missed": ("✗", "failed"),
    "honest fails": ("✗", "failed"),
    "no answer": ("!", "incomplete"),
}
"""The sign of each outcome, and the state whose colours it has."""

_ORDER = ("missed", "honest fails", "no answer", "caught")


def faults_section(document: FaultTable) -> Section:
    """The section of a run of planted faults.

    Args:
        document: of `samebits audit faults`.
    """
    rows = sorted(document.results, key=lambda row: _ORDER.index(outcome(row)))
    wrong = [row for row in rows if outcome(row) != "caught"]
    headline = _headline(document, wrong)
    return Section(
        command="faults",
        state=state_of_faults(document),
        headline=headline,
        next_command=_next(wrong),
        body=render(
            "faults.html.j2",
            document=document,
            headline=headline,
            closing=closing(document.results, document.planned or len(document.results)),
            pairs=_pairs(document.results),
            rows=[(outcome(row), *STATES[outcome(row)], row) for row in rows],
        ),
        styles=("evidence.css",),
    )


def _headline(document: FaultTable, wrong: Sequence[FaultRow]) -> str:
    """Which fault nothing caught."""
    if not wrong:
        if document.problems:
            return f"{document.problems[0].pair}: {document.problems[0].message}"
        return closing(document.results, document.planned or len(document.results))
    row, state = wrong[0], outcome(wrong[0])
    count = sum(outcome(other) == state for other in wrong)
    words = {"missed": "not caught", "honest fails": "with a failing honest implementation", "no answer": "unanswered"}
    seen = row.error if row.error is not None else row.said
    where = f"{row.pair}/{row.side}: {row.fault} (expected {row.expected})"
    return f"{count} of {len(document.results)} planted faults {words[state]}; first {where}: {seen}"


def _next(wrong: Sequence[FaultRow]) -> str | None:
    return shlex.join(["samebits", "audit", "faults", wrong[0].pair, "--fault", wrong[0].fault]) if wrong else None


def _pairs(rows: Sequence[FaultRow]) -> list[list[Any]]:
    """How many faults of each pair are caught."""
    names = dict.fromkeys(row.pair for row in rows)
    return [
        [name, sum(outcome(row) == "caught" for row in rows if row.pair == name), sum(row.pair == name for row in rows)]
        for name in names
    ]
