"""Annotations of GitHub Actions: workflow commands such as `::error file=suites/test_rope.py,line=9::...`.

Source: "Workflow commands for GitHub Actions" in GitHub's documentation, and `packages/core/src/command.ts` of
actions/toolkit for the escapes. A step shows 10 errors and 10 warnings; more are dropped by GitHub.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from samebits.report.declaration_lines import SourceLine
from samebits.report.outcomes import OutcomeRow, Outcomes
from samebits.report.words import plural

MOST = 10
"""Annotations of one level that GitHub shows of a step."""

TITLE = 200
"""Characters of a title."""


def workflow_commands(outcomes: Outcomes, workspace: Path) -> list[str]:
    """One line for each cause of failures, at the line where the smallest example is declared.

    Where no cause is known there is one for each variant and case.

    What is refuted, differs or could not run is an error; what `samebits prove` cannot prove is a warning.

    Args:
        outcomes: of a command, its exit code included.
        workspace: the folder of the repository, which the files are named from.
    """
    groups: dict[tuple[object, ...], list[OutcomeRow]] = {}
    for row in outcomes.rows:
        if not row.holds:
            of = row.finding.place
            what = (of.pair or of.item, of.variant, of.case) if row.cause is None else (id(row.cause),)
            groups.setdefault((_level(row), *what), []).append(row)
    written: dict[str, list[str]] = {"error": [], "warning": []}
    for rows in groups.values():
        level, first = _level(rows[0]), next((row for row in rows if row.example), rows[0])
        place = outcomes.lines.of(first.finding.place.pair, first.finding.place.case)
        written[level].append(_annotation(level, first, len(rows) - 1, place, workspace))
    return [line for level, commands in written.items() for line in _capped(level, commands)]


def workflow_command(level: str, message: str, properties: Mapping[str, str | int] | None = None) -> str:
    """One workflow command, escaped.

    Args:
        level: `error`, `warning` or `notice`.
        message: of any number of lines.
        properties: such as `file`, `line` and `title`.
    """
    listed = ",".join(f"{name}={_escaped_property(str(value))}" for name, value in (properties or {}).items())
    return f"::{level}{' ' if listed else ''}{listed}::{_escaped(message)}"


def _annotation(level: str, first: OutcomeRow, more: int, place: SourceLine | None, workspace: Path) -> str:
    of = first.finding.place
    who = "/".join(filter(None, (of.pair or of.item, of.variant))) + (f", case {of.case}" if of.case else "")
    properties: dict[str, str | int] = {}
    if place is not None:
        properties = {"file": place.relative_to(workspace), "line": place.line}
    properties["title"] = f"samebits: {who}: {first.verdict}"[:TITLE]
    text = [*(first.details or (first.message,))]
    if first.cause is not None:
        text.insert(1, f"  likely    {'; '.join((first.cause.likely, *first.cause.only))}")
    if more:
        alike = "variant and case" if first.cause is None else f"cause: {first.cause.where}"
        text.append(f"and {plural(more, 'more result')} of this {alike}")
    return workflow_command(level, "\n".join(text), properties)


def _level(row: OutcomeRow) -> str:
    return "warning" if row.verdict == "not proved" else "error"


def _capped(level: str, commands: Sequence[str]) -> list[str]:
    if len(commands) <= MOST:
        return list(commands)
    left = plural(len(commands) - MOST + 1, "more annotation")
    text = f"{left} not shown: GitHub shows {MOST} per step; the report has all"
    return [*commands[: MOST - 1], workflow_command(level, text, {"title": "samebits"})]


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escaped_property(text: str) -> str:
    return _escaped(text).replace(":", "%3A").replace(",", "%2C")
