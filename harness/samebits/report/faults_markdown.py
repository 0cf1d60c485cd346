"""Planted faults for a pull request, in GitHub's Markdown."""

from __future__ import annotations

from dataclasses import replace

from samebits.report.failing import failing_parts, next_command, problem_parts
from samebits.report.faults import FaultTable, closing, outcome
from samebits.report.faults_screen import failing_faults
from samebits.report.markdown import escaped, fenced, table_rows
from samebits.report.markdown_fit import Part, fitted

HEADS = ("outcome", "planted in", "fault", "expected", "caught by", "failing results")


def faults_markdown(document: FaultTable) -> str:
    """The document as Markdown of at most 60 lines: what came out, what was not caught, a row per fault."""
    failing = failing_faults(document)
    command = next_command(failing)
    rows, planned = document.results, document.planned or len(document.results)
    parts: list[Part] = [f"### samebits faults: {_state(document)}", escaped(closing(rows, planned))]
    parts += [] if command is None else [fenced([command])]
    parts += [*problem_parts(document.problems), *failing_parts(failing)]
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


def _state(document: FaultTable) -> str:
    outcomes = {outcome(row) for row in document.results}
    if outcomes & {"missed", "honest fails"}:
        return "failed"
    complete = len(document.results) >= document.planned and not document.problems
    return "passed" if complete and outcomes == {"caught"} else "incomplete"
