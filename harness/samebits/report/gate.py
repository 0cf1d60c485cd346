"""The document of `samebits gate`, and its page: what a kernel is refuted for, and what may be said of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from samebits.report.causes import usual_page
from samebits.report.document import CommandDocument
from samebits.report.failure import point_block
from samebits.report.page import Badge, Code, Page, Table
from samebits.report.words import listed
from samebits.schema.finding import Finding
from samebits.schema.gate_row import GateRow
from samebits.schema.result import VERDICTS

_CLAIMS = {
    "proved": "the same bits as its reference for every input of these shapes",
    "bitwise": "the same bits as its reference at every input tried, on this processor; elsewhere bits may differ",
    "rounding": "the formula of its reference, up to rounding that is bounded",
}
"""What may be said of a kernel that is not refuted, by the lowest verdict of its outputs and gradients."""

_TONES = {"holds": "good", "limited": "warn", "refuted": "bad", "undecided": "warn", "not tried": "dim"}
_SIGNS = {"holds": "✓", "limited": "!", "refuted": "✗", "undecided": "?", "not tried": "-"}


@dataclass(frozen=True, kw_only=True, slots=True)
class GateDocument(CommandDocument):
    """What a gate found, as it is written to JSON.

    Args:
        kernel, reference: `FILE.py:FUNCTION`.
        results: one row for each kind of refutation.
        leaves: the verdicts on outputs and gradients, where the kernel came so far.
        refuted: the kinds that it is refuted for.
        claim: what may be said of the kernel.
        notes: what else to know.
        seconds: that it took.
    """

    command: Literal["gate"] = "gate"
    kernel: str
    reference: str
    results: tuple[GateRow, ...]
    leaves: tuple[Finding, ...] = ()
    refuted: tuple[str, ...] = ()
    claim: str = ""
    notes: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def exit_code(self) -> int:
        """Return 0 where nothing refutes the kernel, 1 where something does, 3 where its outputs are undecided."""
        states = {row.kind: row.state for row in self.results}
        if "refuted" in states.values():
            return 1
        return 0 if states.get("formula") == "holds" and "undecided" not in states.values() else 3

    def page(self) -> Page:
        """Return a row for each kind, what refutes first."""
        rows = sorted(self.results, key=lambda row: row.state != "refuted")
        table = Table(
            heads=("kind", "state", "what was seen", "where"),
            rows=[
                (row.kind, Badge(text=row.state, sign=_SIGNS[row.state], tone=_TONES[row.state]), row.words, row.where)  # type: ignore[arg-type]
                for row in rows
            ],
            caption="Kinds of refutation, what refutes the kernel first",
            bad=[number for number, row in enumerate(rows) if row.state == "refuted"],
            wide=("what was seen",),
        )
        failing = [leaf for leaf in self.leaves if not leaf.ruling.ok]
        witness = [Code(title="The first output that differs", lines=point_block(failing[:1]))] if failing else []
        return replace(usual_page(self, ("passed", "refuted")), closing=self.claim, blocks=[table, *witness])


def claim_of(rows: tuple[GateRow, ...], leaves: tuple[Finding, ...]) -> str:
    """Say what may be said of a kernel."""
    refuted = [f"{row.kind} ({row.words})" for row in rows if row.state == "refuted"]
    if refuted:
        return f"refuted: {listed(refuted, 'kind', 1)}"
    undecided = [row for row in rows if row.state == "undecided"]
    undecided = undecided or [row for row in rows if row.kind == "formula" and row.state == "limited"]
    verdicts = [leaf.ruling.verdict for leaf in leaves]
    if undecided or not verdicts:
        return f"undecided: {undecided[0].words}" if undecided else "undecided: no output was compared"
    lowest = max(verdicts, key=VERDICTS.index)
    limits = [f"; not beyond its inputs: {row.words}" for row in rows if row.state == "limited"]
    return f"it has {_CLAIMS.get(lowest, lowest)}{''.join(limits)}"
