"""The document of `samebits accept --verdicts`, and its page: a line per pair."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from typing import Literal

from samebits.audit.snapshots import AcceptedVerdicts
from samebits.host.environment import Environment
from samebits.report.causes import usual_page
from samebits.report.document import CommandDocument
from samebits.report.page import Line, Lines, Page
from samebits.report.words import plural
from samebits.schema.result import Problem


@dataclass(frozen=True, kw_only=True, slots=True)
class AcceptDocument(CommandDocument):
    """Everything that was accepted."""

    command: Literal["accept"] = "accept"
    environment: Environment
    results: tuple[AcceptedVerdicts, ...]
    problems: tuple[Problem, ...] = ()

    def page(self) -> Page:
        """Return a line per pair, those whose snapshot was written first."""
        rows = sorted(self.results, key=lambda row: _ORDER.get(row.change, 2))
        problems = self.problems
        return replace(
            usual_page(self),
            closing=_closing(self),
            blocks=[Lines(lines=[_line(row) for row in rows])],
            command_next=shlex.join(["samebits", "check", problems[0].pair]) if problems else None,
        )


_ORDER = {"new": 0, "changed": 1}


def _line(row: AcceptedVerdicts) -> Line:
    moved = f" ({row.gained} more, {row.lost} fewer)" if row.gained or row.lost else ""
    text = f"{row.pair}: {row.change}: {plural(row.equal, 'result')} with equal bits beyond the contract{moved}"
    return Line(text if row.change == "unchanged" else f"{text}; {row.path}", "warn" if row.lost else "")


def _closing(document: AcceptDocument) -> str:
    written = sum(row.change != "unchanged" for row in document.results)
    lost = sum(row.lost for row in document.results)
    gone = f"; {plural(lost, 'result')} no longer equal" if lost else ""
    equal = plural(sum(row.equal for row in document.results), "result")
    pairs = plural(len(document.results), "pair")
    return f"{pairs}: {plural(written, 'snapshot')} written, {equal} beyond the contract{gone}"
