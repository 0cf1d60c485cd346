"""Shows planted faults in a terminal and a pull request: what no check caught first."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from samebits.audit.faults.fault import FaultRow
from samebits.report.causes import usual_page
from samebits.report.document import CommandDocument
from samebits.report.findings import judged
from samebits.report.page import Badge, Cell, Fold, Line, Lines, Page, Table
from samebits.report.words import plural
from samebits.schema.finding import Finding, Place
from samebits.schema.result import Problem, gravest


@dataclass(frozen=True, kw_only=True, slots=True)
class FaultTable(CommandDocument):
    """The document of `samebits audit faults --json`.

    Args:
        results: a row per fault, in the order of the tree's tables.
        problems: faults that cannot be planted, as where the text that they edit is gone.
        planned: how many faults were to be tried; 0 in documents of older versions.
    """

    command: Literal["faults"] = "faults"
    results: tuple[FaultRow, ...]
    problems: tuple[Problem, ...] = ()
    planned: int = 0

    @property
    def exit_code(self) -> int:
        """Return 1 where a fault is not caught or an honest form fails; 3 where not all were tried to the end."""
        answered = [row for row in self.results if row.error is None]
        if any(not (row.caught and row.honest) for row in answered):
            return 1
        whole = bool(answered) and len(answered) == (self.planned or len(self.results))
        return gravest(self.problems) or (0 if whole else 3)

    def as_findings(self) -> Iterator[Finding]:
        """Yield what is judged."""
        for fault in self.results:
            verdict = "no answer" if fault.error else "caught" if fault.caught else "not caught"
            if fault.caught:
                verdict += " by its snapshot" if fault.by == "snapshot" else ""
                verdict += "" if fault.honest else ", and the honest form fails too"
            yield judged(
                "faults",
                Place(pair=fault.pair, variant=fault.side, item=fault.fault),
                verdict,
                ok=fault.caught and fault.honest and not fault.error,
                evidence=fault.error or fault.said,
                required=fault.expected,
                replay=shlex.join(["samebits", "audit", "faults", fault.pair, "--fault", fault.fault]),
            )

    def page(self) -> Page:
        """Return a row per fault, those that no check caught first."""
        planned = self.planned or len(self.results)
        rows = sorted(self.results, key=lambda row: [*_BADGES].index(outcome(row)))
        counts = {pair: Counter(outcome(row) for row in rows if row.pair == pair) for pair in _pairs(self)}
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
        live = [fault_lines(number, planned, row) for number, row in enumerate(self.results, 1)]
        return replace(
            usual_page(self),
            closing=closing(self.results, planned),
            live=[Fold(title="", blocks=live, short=_pair_lines(counts), media=("terminal",))],
            blocks=[table, by_pair],
            hint="--verbose prints every fault with what the check says",
        )


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
    """Write one sentence."""
    caught = sum(row.caught and row.honest for row in rows)
    text = f"{caught} of {len(rows)} planted faults are caught, with the honest implementation passing beside each"
    by_snapshot = sum(row.by == "snapshot" for row in rows)
    text += f"; {by_snapshot} of them only by the honest verdicts of this environment" if by_snapshot else ""
    unanswered = sum(row.error is not None for row in rows)
    text += f"; {plural(unanswered, 'check')} did not come to an end" if unanswered else ""
    return text + ("" if len(rows) == of else f"; {of - len(rows)} were not tried")


def outcome(row: FaultRow) -> str:
    """Return what became of one fault."""
    if row.error is not None:
        return "no answer"
    return "missed" if not row.caught else "caught" if row.honest else "honest fails"


WRONG = {
    "missed": "not caught",
    "honest fails": "with a failing honest implementation",
    "no answer": "unanswered",
}
"""The outcomes that are not as they have to be, in words, the gravest first."""

HEADS = ("outcome", "planted in", "fault", "expected", "caught by", "failing results", "what the check says")

_BADGES = {
    "missed": Badge(text="missed", sign="✗", tone="bad"),
    "honest fails": Badge(text="honest fails", sign="✗", tone="bad"),
    "no answer": Badge(text="no answer", sign="!", tone="warn"),
    "caught": Badge(text="caught", sign="✓", tone="good"),
}
"""By outcome, the gravest first."""


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
