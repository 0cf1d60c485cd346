"""Shows planted faults in a terminal and a pull request: what no check caught first."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from samebits.audit.faults.fault import FaultRow
from samebits.host.written import Written
from samebits.report.document import SCHEMA
from samebits.report.failing import Failing
from samebits.report.page import Badge, Cell, Fold, Line, Lines, Page, Table
from samebits.report.words import State, first_problem, plural
from samebits.schema.result import Problem, gravest


@dataclass(frozen=True, kw_only=True, slots=True)
class FaultTable:
    """The document of `samebits audit faults --json`.

    Args:
        results: a row per fault, in the order of the tree's tables.
        problems: faults that cannot be planted, as where the text that they edit is gone.
        planned: how many faults were to be tried; 0 in documents of older versions.
    """

    schema: Literal["samebits/2"] = SCHEMA
    command: Literal["faults"] = "faults"
    results: tuple[FaultRow, ...]
    problems: tuple[Problem, ...] = ()
    planned: int = 0
    written: Written | None = None

    @property
    def exit_code(self) -> int:
        """1 where a fault is not caught or an honest implementation fails; 3 where not all were tried to the end."""
        answered = [row for row in self.results if row.error is None]
        if any(not (row.caught and row.honest) for row in answered):
            return 1
        return gravest(self.problems) or (0 if len(answered) == self.planned else 3)

    def page(self) -> Page:
        """Return what is shown."""
        return faults_page(self)


def fault_lines(number: int, of: int, row: FaultRow) -> Lines:
    """Return two lines about one fault, for what the check says is long."""
    state, tone = ("caught", "good") if row.caught else ("MISSED", "bad")
    if row.error is not None:
        state, tone = "NO ANSWER", "bad"
    elif not row.honest:
        state, tone = "HONEST FAILS", "bad"
    counted = f"{row.failed} of {row.results} results fail; " if row.results else ""  # none where nothing could run
    said = row.error if row.error is not None else f"{counted}{row.said}"
    first = Line(f"{number:>3}/{of}  {state:<7} {row.pair}/{row.side}: {row.fault}", "" if tone == "good" else "bad")
    return Lines(lines=[first, Line(f"         {said}", "dim")], media=("terminal",))


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


HEADS = ("outcome", "planted in", "fault", "expected", "caught by", "failing results", "what the check says")

_BADGES = {
    "missed": Badge(text="missed", sign="✗", tone="bad"),
    "honest fails": Badge(text="honest fails", sign="✗", tone="bad"),
    "no answer": Badge(text="no answer", sign="!", tone="warn"),
    "caught": Badge(text="caught", sign="✓", tone="good"),
}
"""By outcome, the gravest first."""


def faults_page(document: FaultTable) -> Page:
    """Return a row per fault, those that no check caught first."""
    planned = document.planned or len(document.results)
    rows = sorted(document.results, key=lambda row: [*_BADGES].index(outcome(row)))
    counts = {pair: Counter(outcome(row) for row in rows if row.pair == pair) for pair in _pairs(document)}
    table = Table(
        heads=HEADS,
        rows=[_cells(row) for row in rows],
        title="Planted faults",
        caption="Every planted fault; those that no check caught are first",
        bad=[number for number, row in enumerate(rows) if outcome(row) != "caught"],
        right=HEADS[5:6],
        wide=HEADS[6:],
        media=("markdown", "html"),
    )
    by_pair = Table(
        heads=("pair", "caught", "planted"),
        rows=[[pair, str(count["caught"]), str(count.total())] for pair, count in counts.items()],
        caption="Faults by pair",
        right=("caught", "planted"),
        media=("html",) if len(counts) > 1 else (),
    )
    live = [fault_lines(number, planned, row) for number, row in enumerate(document.results, 1)]
    return Page(
        command="faults",
        state=state_of_faults(document),
        closing=closing(document.results, planned),
        headline=_headline(document, rows),
        failing=failing_faults(document),
        problems=document.problems,
        live=[Fold(title="", blocks=live, short=_pair_lines(counts), media=("terminal",))],
        blocks=[table, by_pair],
        hint="--verbose prints every fault with what the check says",
    )


def _pairs(document: FaultTable) -> list[str]:
    return list(dict.fromkeys(row.pair for row in document.results))


def _pair_lines(counts: Mapping[str, Counter[str]]) -> Lines:
    """Return a line for each pair."""
    wide = max(map(len, counts), default=0)
    lines = []
    for pair, count in counts.items():
        words = ", ".join(f"{WRONG.get(name, name)} {number}" for name, number in count.items())
        lines.append(Line(f"{pair:<{wide}}  {words}", "bad" if any(name in count for name in WRONG) else ""))
    return Lines(lines=[*lines, ""])


def _cells(row: FaultRow) -> list[Cell]:
    return [
        _BADGES[outcome(row)],
        f"{row.pair}/{row.side}",
        row.fault,
        row.expected,
        row.by or "" if row.caught else "",
        f"{row.failed} of {row.results}" if row.results else "",
        row.error or row.said,
    ]


def _headline(document: FaultTable, rows: Sequence[FaultRow]) -> str:
    """Say which fault nothing caught."""
    wrong = [row for row in rows if outcome(row) != "caught"]
    if not wrong:
        return first_problem(document.problems) if document.problems else ""
    row, state = wrong[0], outcome(wrong[0])
    count = sum(outcome(other) == state for other in wrong)
    where = f"{row.pair}/{row.side}: {row.fault} (expected {row.expected})"
    return f"{count} of {len(rows)} planted faults {WRONG[state]}; first {where}: {row.error or row.said}"


def state_of_faults(document: FaultTable) -> State:
    """Return `failed` where a fault is missed or an honest form fails, `incomplete` where not all came to an end."""
    outcomes = {outcome(row) for row in document.results}
    if outcomes & {"missed", "honest fails"} or any(problem.exit_code == 1 for problem in document.problems):
        return "failed"
    tried = len(document.results) >= document.planned
    return "passed" if tried and not document.problems and "no answer" not in outcomes and outcomes else "incomplete"
