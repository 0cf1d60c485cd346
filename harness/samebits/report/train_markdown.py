"""Training runs for a pull request, in GitHub's Markdown."""

from __future__ import annotations

from samebits.report.failing import failing_parts, next_command
from samebits.report.markdown import escaped, fenced, markdown_table
from samebits.report.markdown_fit import Part, joined
from samebits.report.train import (
    PAIRING_HEADS,
    TrainDocument,
    closing,
    cluster_lines,
    detection_table,
    exit_code,
    expectation_lines,
    pairing_table,
    run_table,
    uncompared_lines,
)
from samebits.report.train_envelope import envelope_lines
from samebits.report.train_failing import failing_runs

_STATES = {0: "as expected", 1: "not as expected", 2: "incomplete", 3: "incomplete"}


def trained_markdown(document: TrainDocument) -> str:
    """The document as Markdown: result, environment, runs, comparisons, clusters, bounds, problems."""
    parts: list[Part] = [
        f"### samebits train {document.matrix}: {_STATES[exit_code(document)]}",
        escaped(closing(document)),
    ]
    failing = failing_runs(document)
    command = next_command(failing)
    parts += [] if command is None else [fenced([command])]
    parts += failing_parts(failing)
    parts.append(escaped("; ".join(document.environment.lines()[:2])))
    if document.results:
        parts.append(markdown_table(*run_table(document)))
    if document.comparisons:
        parts.append(markdown_table(PAIRING_HEADS, pairing_table(document)))
    if document.detection is not None:
        parts.append(markdown_table(*detection_table(document.detection)))
    lines = [*cluster_lines(document)]
    lines += [
        *uncompared_lines(document),
        *expectation_lines(document),
        *envelope_lines(document.envelope),
        *document.notes,
    ]
    lines += [f"could not run {problem.pair}: {problem.message}" for problem in document.problems]
    parts.append("\n".join(f"- {escaped(text)}" for text in lines))
    return joined(parts)
