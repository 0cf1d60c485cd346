"""The findings of a command as continuous integration reads them: passed, failed, error or skipped.

In: the document of any command. Out: one row per finding, which `junit` and `workflow_commands` write.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from samebits.report.check import Document, document_causes
from samebits.report.declaration_lines import DeclarationLines
from samebits.report.failing import Failing
from samebits.report.failure import point_block
from samebits.report.findings import findings, judged, problem_findings
from samebits.schema.finding import Compared, Finding, Place, Status
from samebits.schema.result import requirement


@dataclass(frozen=True, kw_only=True, slots=True)
class OutcomeRow:
    """One finding.

    Args:
        finding: the finding.
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
        if self.finding.tool != "prove" or self.status == "passed":
            return self.finding.ruling.verdict
        return "refuted" if self.status == "failed" else "not proved"

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
        command: such as `check`.
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
    """Return the rows of a document of any command, and of its problems.

    Args:
        document: of the command.
        lines: where its pairs are declared.
        results: its findings; by default what the document says.
    """
    results = findings(document) if results is None else results
    no_skips, of_cause = False, {}
    if isinstance(document, Document):
        no_skips = document.no_skips
        of_cause = {id(result): cause for cause in document_causes(document) for result in cause.findings}
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
