"""Proofs of training steps for a pull request, in GitHub's Markdown."""

from __future__ import annotations

from dataclasses import replace

from samebits.report.failing import failing_parts, next_command, problem_parts
from samebits.report.markdown import escaped, fenced, table_rows
from samebits.report.markdown_fit import Part, fitted
from samebits.report.prove_model import (
    ASSUMED,
    HEADS,
    StepDocument,
    by_step,
    closing,
    exit_code,
    failing_steps,
    first_not_proved,
    row,
)

_STATES = {0: "proved", 1: "refuted"}


def steps_proved_markdown(document: StepDocument) -> str:
    """The document as Markdown of at most 60 lines: what came out, the worst steps, a row per step."""
    failing = failing_steps(document)
    command = next_command(failing)
    state = _STATES.get(exit_code(document), "incomplete")
    parts: list[Part] = [f"### samebits prove model: {state}", escaped(closing(document))]
    parts += [] if command is None else [fenced([command])]
    parts += [*problem_parts(document.problems), *failing_parts(failing)]
    steps = by_step(document.results)
    bad = [number for number, leaves in enumerate(steps) if first_not_proved(leaves) is not None]
    if steps:
        title = f"One training step of '{document.model}' against all references on one device"
        rows = table_rows(title, HEADS, [row(leaves) for leaves in steps], bad)
        parts += [replace(rows, opened=False), escaped(" ".join(ASSUMED))]
    parts += [f"- {escaped(note)}" for note in document.notes]
    parts.append(escaped("; ".join(document.environment.lines())))
    return fitted(parts)
