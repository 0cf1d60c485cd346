"""The end of `samebits faults` in a terminal: every fault where there is room, else those that no check caught."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence

from rich.console import Console

from samebits.audit.faults.fault import FaultRow
from samebits.report.failing import WORST, Failing, explained, next_command
from samebits.report.faults import FaultTable, closing, outcome, show_fault
from samebits.report.screen import Form, Styled, in_turn, show_fitted
from samebits.report.tables import line
from samebits.report.words import plural

WRONG = {
    "missed": "not caught",
    "honest fails": "with a failing honest implementation",
    "no answer": "unanswered",
}
"""The outcomes that are not as they have to be, in words, the gravest first."""

_LIKELY = {
    "missed": "the check does not see this class of difference here: a case, a mesh or a direction is missing",
    "honest fails": "the honest implementation differs at the same points, so that what was caught says nothing",
    "no answer": "the check did not come to its end",
}

_LISTED = 4
"""Faults that are listed; more are counted."""


def failing_faults(document: FaultTable) -> list[Failing]:
    """The faults that are not as they have to be, those of one side and outcome together."""
    groups: dict[tuple[str, str, str], list[FaultRow]] = {}
    for row in document.results:
        if outcome(row) != "caught":
            groups.setdefault((outcome(row), row.pair, row.side), []).append(row)
    ordered = sorted(groups.items(), key=lambda entry: ([*WRONG].index(entry[0][0]), -len(entry[1])))
    return [_failing(key, rows, document.results) for key, rows in ordered]


def show_faults(to: Console, document: FaultTable, *, verbose: bool = False) -> None:
    """The end of the report.

    Args:
        to: where it is printed.
        document: of the faults.
        verbose: whether every fault has been shown already; else they are now, as far as they fit on one screen.
    """
    rows = document.results
    failing = failing_faults(document)
    command = next_command(failing)
    good = rows and len(rows) == (document.planned or len(rows)) and not failing
    end: list[Styled] = [(closing(rows, document.planned or len(rows)), "bold green" if good else "bold red")]
    end += [] if command is None else [(f"next: {command}", "")]
    few = [explained(failing, count) for count in range(min(WORST, len(failing)), 0, -1)] or [in_turn()]
    forms: list[Form] = [in_turn()] if verbose else [_every(document)]
    if not verbose:
        forms += [in_turn(_pairs(document), form) for form in few]
        forms += few
    show_fitted(to, forms, end, "--verbose prints every fault with what the check says")


def _every(document: FaultTable) -> Form:
    def form(to: Console) -> None:
        for number, row in enumerate(document.results, 1):
            show_fault(to, number, document.planned or len(document.results), row)

    return form


def _pairs(document: FaultTable) -> Form:
    """A line for each pair."""

    def form(to: Console) -> None:
        counts: dict[str, Counter[str]] = {}
        for row in document.results:
            counts.setdefault(row.pair, Counter())[outcome(row)] += 1
        wide = max(map(len, counts), default=0)
        for pair, of_pair in counts.items():
            wrong = any(name in of_pair for name in WRONG)
            words = ", ".join(f"{WRONG.get(name, name)} {count}" for name, count in of_pair.items())
            line(to, f"{pair:<{wide}}  {words}", "bold red" if wrong else "")
        line(to)

    return form


def _failing(key: tuple[str, str, str], group: Sequence[FaultRow], every: Sequence[FaultRow]) -> Failing:
    state, pair, side = key
    first = group[0]
    beside = sum((row.pair, row.side) == (pair, side) for row in every)
    names = "; ".join(row.fault for row in group[:_LISTED])
    return Failing(
        title=f"{pair}/{side}: {len(group)} of {plural(beside, 'planted fault')} {WRONG[state]}",
        likely=_LIKELY[state],
        where=names + (f" and {len(group) - _LISTED} more" if len(group) > _LISTED else ""),
        example=f"{first.fault}, expected {first.expected}: {first.error or first.said}",
        next_command=shlex.join(["samebits", "faults", pair, "--fault", first.fault]),
    )
