"""The table of planted faults: the mutant, whether the check caught it, and the first line of its report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rich.console import Console
from rich.text import Text

from samebits.audit.faults.fault import FaultRow
from samebits.host.written import Written
from samebits.report.document import SCHEMA
from samebits.report.words import plural
from samebits.schema.result import Problem


@dataclass(frozen=True, kw_only=True, slots=True)
class FaultTable:
    """The document of `samebits faults --json`.

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
