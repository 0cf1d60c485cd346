"""The findings of a command as continuous integration reads them: rows, JUnit XML, and annotations of GitHub Actions.

JUnit is that of Jenkins' `junit-10.xsd` with properties of test cases, which pytest's `xunit2` writes too: a suite per
pair, a test case per result. A file and a line are properties, because that schema has no such attributes. Annotations
are workflow commands such as `::error file=suites/test_rope.py,line=9::...`, as GitHub's documentation has them, with
the escapes of `packages/core/src/command.ts` of actions/toolkit; a step shows 10 errors and 10 warnings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from junitparser import Error, Failure, Skipped
from junitparser.xunit2 import JUnitXml, TestCase, TestSuite

from samebits.report.causes import causes_of
from samebits.report.declaration_lines import DeclarationLines, SourceLine
from samebits.report.failure import point_block
from samebits.report.findings import findings, judged, problem_findings, verdict_words
from samebits.report.page import Failing
from samebits.report.words import plural
from samebits.schema.finding import Compared, Finding, Place, Status
from samebits.schema.result import requirement


@dataclass(frozen=True, kw_only=True, slots=True)
class OutcomeRow:
    """One finding.

    Args:
        status: its own, but of a skip that fails the run.
        seconds: of this finding; the sum over all rows is the time of the points.
        cause: what it failed of together with others, where that is known.
        example: whether it is the smallest of those.
    """

    finding: Finding
    status: Status
    seconds: float = 0.0
    cause: Failing | None = None
    example: bool = False

    @property
    def holds(self) -> bool:
        """Return whether this result lets the command end with exit code 0."""
        return self.status in ("passed", "skipped")

    @property
    def name(self) -> str:
        """Return its name among those of its variant."""
        place = self.finding.place
        parts = (place.case, place.dtype, place.mesh, place.mode, place.direction, place.target, place.leaf, place.item)
        return "-".join(filter(None, parts))

    @property
    def verdict(self) -> str:
        """Return the verdict, in words."""
        return verdict_words(self.finding)

    @property
    def message(self) -> str:
        """Return what was found and what is required, with the witness, on one line; empty where it passed."""
        if self.finding.ruling.ok:
            return ""
        ruling, leaf = self.finding.ruling, self.finding.place.leaf
        required = f", required {requirement(ruling.required, ruling.reason)}" if ruling.required else ""
        seen = self.finding.comparison.witness
        witness = self.finding.proof.refutation or (None if seen is None else seen.said(self.finding.place.variant))
        if witness is None and self.finding.tool not in ("check", "prove"):
            witness = ruling.evidence
        skip = "a skipped result fails the run (--no-skips)" if ruling.verdict == "skipped" and not self.holds else None
        head = f"{'' if leaf in ('', '*') else f'{leaf}: '}{ruling.verdict}{required}"
        if not ruling.required:
            return ruling.evidence or head
        return " ".join("; ".join(str(part) for part in (head, witness, ruling.reason, skip) if part).split())

    @property
    def details(self) -> list[str]:
        """Return the lines that explain it, replay included; none where it passed."""
        if self.finding.ruling.ok:
            return []
        if self.finding.ruling.required:
            return point_block([self.finding])
        replay = [f"  replay    {self.finding.replay}"] if self.finding.replay else []
        return [self.finding.ruling.evidence or "", *replay]

    @property
    def properties(self) -> dict[str, str]:
        """Return what else is known, as texts."""
        ruling, seen, proof = self.finding.ruling, self.finding.comparison, self.finding.proof
        values = {
            "verdict": ruling.verdict,
            "required": ruling.required,
            "method": proof.method,
            "domain": proof.domain,
            "evidence": ruling.evidence,
            "reason": ruling.reason,
            "log2_error": proof.log2_error,
            "replay": self.finding.replay,
        }
        if seen != Compared():
            values |= {"elements": seen.elements, "mismatches": seen.mismatches, "max_ulp": seen.max_ulp}
            values["bits"] = seen.bits
        return {name: str(value) for name, value in values.items() if value not in (None, "")}


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcomes:
    """All rows of a command.

    Args:
        rows: in the order of the document.
        lines: where the pairs are declared.
    """

    command: str
    rows: tuple[OutcomeRow, ...]
    lines: DeclarationLines

    def ended_with(self, code: int) -> Outcomes:
        """Return the same, with a row that is an error where the exit code is not 0 and no row says why."""
        if code == 0 or not all(row.holds for row in self.rows):
            return self
        text = f"samebits {self.command} ended with exit code {code}"
        text += "" if any(row.status == "passed" for row in self.rows) else ": nothing was compared"
        place = Place(pair="samebits", item=self.command)
        finding = judged(self.command, place, "error", ok=False, evidence=text)
        return replace(self, rows=(*self.rows, OutcomeRow(finding=finding, status="error")))


def outcomes(document: Any, lines: DeclarationLines, results: Sequence[Finding] | None = None) -> Outcomes:
    """Return the rows of a document of any command, and of its problems."""
    groups: list[Failing] = []
    if results is None:
        results = findings(document)
        groups = causes_of(document, results)
    of_cause = {id(result): cause for cause in groups for result in cause.findings}
    no_skips = getattr(document, "no_skips", False)
    seen: set[Place] = set()
    rows: list[OutcomeRow] = []
    for finding in (*results, *problem_findings(document.problems)):
        cause, status = of_cause.get(id(finding)), finding.status
        # The seconds of a check are those of the whole point: they count once.
        point = finding.place.whole
        seconds = 0.0 if finding.tool == "check" and point in seen else finding.seconds
        seen.add(point)
        if status == "skipped" and no_skips:
            status = "error"
        example = cause is not None and cause.smallest is finding
        rows.append(OutcomeRow(finding=finding, status=status, seconds=seconds, cause=cause, example=example))
    return Outcomes(command=document.command, rows=tuple(rows), lines=lines)


_HEAD = '<?xml version="1.0" encoding="utf-8"?>'


def junit_xml(outcomes: Outcomes) -> str:
    """Return the rows as JUnit XML."""
    suites: dict[str, TestSuite] = {}
    for row in outcomes.rows:
        pair = row.finding.place.pair or row.finding.place.item
        suites.setdefault(pair, TestSuite(_legal(pair))).add_testcase(_case(row, outcomes.lines))
    document = JUnitXml(f"samebits {outcomes.command}")
    for suite in suites.values():
        document.add_testsuite(suite)
    document.update_statistics()
    return f"{_HEAD}\n{document.tostring().decode('utf-8')}\n"


def _case(row: OutcomeRow, lines: DeclarationLines) -> TestCase:
    place = row.finding.place
    classname = ".".join(filter(None, (place.pair or place.item, place.variant)))
    case = TestCase(_legal(row.name), classname=_legal(classname), time=row.seconds)
    kind = {"failed": Failure, "error": Error, "skipped": Skipped}.get(row.status)
    if kind is not None:
        outcome = kind(_legal(row.message), _legal(row.verdict))
        outcome.text = _legal("\n".join(row.details))
        case.result = [outcome]
    line = lines.of(place.pair, place.case)
    where = {} if line is None else {"file": str(line.file), "line": str(line.line)}
    for name, value in {**row.properties, **where}.items():
        case.add_property(name, _legal(value))
    return case


def _legal(text: str) -> str:
    """Return a text with the characters that XML 1.0 cannot hold written as Python escapes them."""
    return "".join(
        sign
        if sign in "\t\n\r" or " " <= sign <= "\ud7ff" or "\ue000" <= sign <= "\ufffd" or sign >= "\U00010000"
        else sign.encode("unicode_escape").decode("ascii")
        for sign in text
    )


MOST = 10
"""Annotations of one level that GitHub shows of a step."""

TITLE = 200
"""Characters of a title."""


def workflow_commands(outcomes: Outcomes, workspace: Path) -> list[str]:
    """Return one line for each cause of failures, at the line where the smallest example is declared.

    Where no cause is known there is one for each variant and case.

    What is refuted, differs or could not run is an error; what `samebits prove` cannot prove is a warning.
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
    """Return one workflow command, escaped."""
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
    likely = "" if first.cause is None else "; ".join(filter(None, (first.cause.likely, *first.cause.only)))
    if likely:
        text.insert(1, f"  likely    {likely}")
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
