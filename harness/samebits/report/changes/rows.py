"""What of a document is compared with another: its findings, and what was measured beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from samebits.report.findings import findings, place_of, words_of
from samebits.report.train import measured_envelope
from samebits.schema.finding import Finding, Place
from samebits.train.envelope import Envelope
from samebits.train.record import RunRecord


@dataclass(frozen=True, kw_only=True, slots=True)
class EnvelopedRun:
    """A training run of a document.

    Args:
        record: its steps.
        envelope: of the document, how far rounding alone moves losses; None where none was measured.
    """

    record: RunRecord
    envelope: Envelope | None


@dataclass(kw_only=True, slots=True)
class DocumentRows:
    """Everything of a document that is compared with another.

    Args:
        findings: by their places; of several at one place the last one counts.
        bits: digests of what the reference gave, or of programs and runs.
        seconds: processor or wall time, as the document has it.
        figures: of compiled programs, by the name of the figure.
        runs: of training.
    """

    findings: dict[Place, Finding] = field(default_factory=dict)
    bits: dict[Place, str] = field(default_factory=dict)
    seconds: dict[Place, float] = field(default_factory=dict)
    figures: dict[tuple[Place, str], float] = field(default_factory=dict)
    runs: dict[Place, EnvelopedRun] = field(default_factory=dict)

    def add_seconds(self, place: Place, seconds: float | None) -> None:
        """Add a time: the largest of those at one place, since leaves share the time of their point."""
        if seconds:
            self.seconds[place] = max(self.seconds.get(place, 0.0), seconds)

    def add_figures(self, place: Place, record: object, names: tuple[str, ...]) -> None:
        """Add the figures that a record has."""
        for name in names:
            value = getattr(record, name)
            if value is not None:
                self.figures[place, name] = float(value)


def without(place: Place, *parts: str) -> Place:
    """The place without some of its parts."""
    return replace(place, **dict.fromkeys(parts, ""))


FIGURES = ("temp_bytes", "peak_bytes", "wire_bytes", "bytes_accessed", "flops")
"""Figures of a compiled program of which less is better, and that do not depend on the load of the machine."""


def document_rows(document: Any) -> DocumentRows:
    """What a document says about each result.

    Args:
        document: the record of any command.

    Raises:
        RequestError: the documents of this command have no verdicts.
    """
    rows = DocumentRows()
    for finding in findings(document):
        place = finding.place
        rows.findings[place] = finding
        rows.add_seconds(place if finding.tool == "prove" else place.whole, finding.seconds)
        if finding.comparison.bits is not None:
            # Variants and meshes share the reference's bits on one device.
            rows.bits.setdefault(without(place, "variant", "mesh", "mode"), finding.comparison.bits)
    measured = _MEASURED.get(document.command)
    if measured is not None:
        measured(document, rows)
    return rows


def _compile(document: Any, rows: DocumentRows) -> None:
    for side in document.results:
        place = place_of(side, variant=side.side)
        rows.bits[place] = side.program
        rows.add_figures(place, side, FIGURES)
        rows.add_seconds(place, None if side.cached else side.compile_seconds)


def _compile_model(document: Any, rows: DocumentRows) -> None:
    for step in document.results:
        place = place_of(step, mode=step.shard_mode, variant=words_of(step.choice), item=step.config)
        rows.bits[place] = step.facts.program
        rows.add_figures(place, step.facts, FIGURES)
        rows.add_seconds(place, None if step.facts.cached else step.facts.compile_seconds)


def _tune(document: Any, rows: DocumentRows) -> None:
    for trial in document.trials:
        place = place_of(trial, variant=trial.side, leaf=f"{trial.argument}={trial.value}")
        rows.add_figures(place, trial, FIGURES[:2])


def _train(document: Any, rows: DocumentRows) -> None:
    envelope = measured_envelope(document.envelope, document.results)
    for ran in document.results:
        place = Place(pair=document.matrix, item=ran.config)
        rows.runs[place] = EnvelopedRun(record=ran, envelope=envelope)
        rows.bits[place] = ran.bits
        rows.add_seconds(place, ran.compile_seconds + (ran.step_seconds or 0.0) * len(ran.steps))
        rows.add_figures(place, ran, ("temp_bytes",))


_MEASURED: Mapping[str, Callable[[Any, DocumentRows], None]] = {
    "compile": _compile,
    "compile model": _compile_model,
    "tune": _tune,
    "train": _train,
}
"""What stands beside the findings, by the command of the document."""
