"""The document of `samebits compile model`, and its page: training steps at production shapes side by side."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from samebits.host.environment import Environment
from samebits.report.causes import usual_page
from samebits.report.document import CommandDocument
from samebits.report.findings import judged, place_of, words_of
from samebits.report.html.charts import bar_charts, size_groups
from samebits.report.page import Page, Table
from samebits.report.words import plural
from samebits.schema.finding import Finding
from samebits.schema.program_facts import Facts
from samebits.schema.result import Problem


@dataclass(frozen=True, kw_only=True, slots=True)
class CompiledStep:
    """One configuration's training step.

    Args:
        config, mesh, shard_mode, choice: of the configuration.
        target, compiler: what it was compiled for, and by which version.
        published_bytes: what the preset's source reports for this row; None without.
        facts: per device.
    """

    config: str
    mesh: str
    shard_mode: str
    choice: dict[str, str]
    target: str
    compiler: str | None
    published_bytes: float | None
    facts: Facts


@dataclass(frozen=True, kw_only=True, slots=True)
class StepsDocument(CommandDocument):
    """Everything that `samebits compile model` found.

    Args:
        preset: its name.
        about: one line on what its configurations are.
        source: of the published figures.
        results: one row per configuration.
    """

    command: Literal["compile model"] = "compile model"
    environment: Environment
    preset: str
    about: str
    source: str
    results: tuple[CompiledStep, ...]
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]
    seconds: float

    @property
    def exit_code(self) -> int:
        """0: all were compiled; else that of the first problem."""
        return self.problems[0].exit_code if self.problems else 0 if self.results else 3

    def as_findings(self) -> Iterator[Finding]:
        """Yield what is judged."""
        for step in self.results:
            place = place_of(step, mode=step.shard_mode, variant=words_of(step.choice), item=step.config)
            yield judged("compile model", place, "compiled")

    def page(self) -> Page:
        """Return a row for each step, with bars of the same figures."""
        names = [f"{place} {step.config}" for place, step in enumerate(self.results, 1)]  # each a name of its own
        figures = size_groups(dict(zip(names, self.results, strict=True)), _BARS)
        table = Table(
            heads=HEADS,
            rows=step_rows(self),
            title=title(self),
            right=HEADS[3:12],
        )
        return replace(
            usual_page(self, wrong="failed"),
            title=f"compile model {self.preset}",
            heading=f"compile model --preset {self.preset}",
            closing=closing(self),
            blocks=[table, *bar_charts("steps", _LABEL, figures, names)],
        )


HEADS = [
    "run", "mesh", "mode", "arguments MB", "temp MB", "peak MB", "peak", "published MB", "published", "ours/published",
    "comm MB", "loops", "collectives",
]  # fmt: skip


_BARS = {
    "facts.argument_bytes": "arguments",
    "facts.temp_bytes": "temporary memory",
    "facts.peak_bytes": "peak memory",
    "facts.wire_bytes": "communication",
    "published_bytes": "published peak",
}

_LABEL = (
    "Memory and communication of each step, each figure on its own scale; the table has the same figures in the same "
    "order"
)


def step_rows(document: StepsDocument) -> list[list[str]]:
    """Return a row for each step; `peak` and `published` are also multiples of the first row's of the same mesh."""
    rows = []
    for step in document.results:
        f, first = step.facts, next(other for other in document.results if other.mesh == step.mesh)
        ours = f.peak_bytes
        kinds = ", ".join(f"{name} {count}" for name, count in sorted(f.collectives.items()))
        rows.append(
            [
                step.config,
                step.mesh,
                step.shard_mode,
                megabytes(f.argument_bytes),
                megabytes(f.temp_bytes),
                megabytes(ours),
                ratio(ours, first.facts.peak_bytes),
                megabytes(step.published_bytes),
                ratio(step.published_bytes, first.published_bytes),
                ratio(ours, step.published_bytes),
                megabytes(f.wire_bytes),
                str(f.while_loops),
                kinds,
            ]
        )
    return rows


def megabytes(size: float | None) -> str:
    """Return bytes as MB, or a question mark."""
    return "?" if size is None else f"{size / 1e6:.0f}"


def ratio(size: float | None, other: float | None) -> str:
    """Return one size as a multiple of another."""
    return f"{size / other:.3f}x" if size is not None and other else ""


def closing(document: StepsDocument) -> str:
    """Write one sentence: what was compiled."""
    compiled = (
        f"{plural(len(document.results), 'step')} compiled for {document.results[0].target}" if document.results else ""
    )
    bad = plural(len(document.problems), "problem") if document.problems else ""
    return "; ".join(text for text in (compiled, bad, f"{document.seconds:.1f} s") if text)


def title(document: StepsDocument) -> str:
    """Return what the table shows."""
    compiler = document.results[0].compiler if document.results else None
    of = "peak and published also as multiples of the first row's of the same mesh"
    return f"{document.preset}: {document.about}; per device, compiler {compiler}; {of}"
