"""Shows planted faults in a terminal and a pull request: what no check caught first."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from rich.console import Console
from rich.text import Text

from samebits.audit.faults.fault import FaultRow
from samebits.host.written import Written
from samebits.report.document import SCHEMA
from samebits.report.failing import Failing, next_lines, opening, shortened
from samebits.report.markdown_fit import fitted, table_rows
from samebits.report.screen import Form, Styled, in_turn, show_fitted
from samebits.report.tables import line
from samebits.report.words import State, plural
from samebits.schema.result import Problem


@dataclass(frozen=True, kw_only=True, slots=True)
class FaultTable:
    """The document of `samebits audit faults --json`.

    Args:
        results: a row per fault, in the order of the tree's tables.
        problems: faults that cannot be planted, as where the text that they edit is gone.
        planned: how many faults were to be tried; 0 in documents of older versions.
    """

    schema: Literal["samebits/1"] = SCHEMA
    command: Literal["faults"] = "faults"
    results: tuple[FaultRow, ...]
    problems: tuple[Problem, ...] = ()
    planned: int = 0
    written: Written | None = None


def show_fault(to: Console, number: int, of: int, row: FaultRow) -> None:
    """One fault as soon as it has been checked: two lines, for what the check says is long."""
    state, style = ("caught", "green") if row.caught else ("MISSED", "bold red")
    if row.error is not None:
        state, style = "NO ANSWER", "bold red"
    elif not row.honest:
        state, style = "HONEST FAILS", "bold red"
    head = Text(f"{number:>3}/{of}  ")
    head.append(f"{state:<7} ", style)
    head.append(f"{row.pair}/{row.side}: {row.fault}")
    to.print(head, soft_wrap=True)
    counted = f"{row.failed} of {row.results} results fail; " if row.results else ""  # none where nothing could run
    said = row.error if row.error is not None else f"{counted}{row.said}"
    to.print(Text(f"         {said}", "dim"), soft_wrap=True)


def closing(rows: Sequence[FaultRow], of: int) -> str:
    """One sentence.

    Args:
        rows: the faults that were tried.
        of: how many were to be tried.
    """
    caught = sum(row.caught and row.honest for row in rows)
    text = f"{caught} of {len(rows)} planted faults are caught, with the honest implementation passing beside each"
    by_snapshot = sum(row.by == "snapshot" for row in rows)
    text += f"; {by_snapshot} of them only by the honest verdicts of this environment" if by_snapshot else ""
    unanswered = sum(row.error is not None for row in rows)
    text += f"; {plural(unanswered, 'check')} did not come to an end" if unanswered else ""
    return text + ("" if len(rows) == of else f"; {of - len(rows)} were not tried")


def outcome(row: FaultRow) -> str:
    """What became of one fault."""
    if row.error is not None:
        return "no answer"
    return "missed" if not row.caught else "caught" if row.honest else "honest fails"


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
    good = rows and len(rows) == (document.planned or len(rows)) and not failing
    end: list[Styled] = [(closing(rows, document.planned or len(rows)), "bold green" if good else "bold red")]
    end += next_lines(failing)
    few = shortened(failing)
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
        next_command=shlex.join(["samebits", "audit", "faults", pair, "--fault", first.fault]),
    )


HEADS = ("outcome", "planted in", "fault", "expected", "caught by", "failing results")


def faults_markdown(document: FaultTable) -> str:
    """The document as Markdown of at most 60 lines: what came out, what was not caught, a row per fault."""
    failing = failing_faults(document)
    rows, planned = document.results, document.planned or len(document.results)
    parts = opening(f"audit faults: {state_of_faults(document)}", closing(rows, planned), failing, document.problems)
    if rows:
        cells = [
            (
                outcome(row),
                f"{row.pair}/{row.side}",
                row.fault,
                row.expected,
                row.by or "" if row.caught else "",
                f"{row.failed} of {row.results}" if row.results else "",
            )
            for row in rows
        ]
        bad = [number for number, row in enumerate(rows) if outcome(row) != "caught"]
        parts.append(replace(table_rows("Planted faults", HEADS, cells, bad), opened=False))
    return fitted(parts)


def state_of_faults(document: FaultTable) -> State:
    """Return `failed` where a fault is missed or an honest form fails, `incomplete` where not all came to an end."""
    outcomes = {outcome(row) for row in document.results}
    if outcomes & {"missed", "honest fails"} or any(problem.exit_code == 1 for problem in document.problems):
        return "failed"
    tried = len(document.results) >= document.planned
    return "passed" if tried and not document.problems and "no answer" not in outcomes and outcomes else "incomplete"
