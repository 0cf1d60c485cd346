"""The report of a check for a pull request, in GitHub's Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence

from samebits.report.document import Document
from samebits.report.failure import point_block
from samebits.report.tally import accepted, exempted, failures, not_interpreted, rows, skipped
from samebits.report.words import closing, next_command, plural, remembered_sentence, short_meshes

ROWS = ("pair", "variant", "forward", "gradient", "cases", "meshes", "dtypes", "modes", "contract", "emulated")
LEAVES = ("pair", "variant", "direction", "leaf", "measured here", "reason")


def markdown(document: Document) -> str:
    """The document as Markdown: result, environment, table, findings, failures."""
    s = document.summary
    state = "incomplete" if s.interrupted else "failed" if s.failed or document.problems or not s.cases else "passed"
    parts = [
        f"### samebits check: {state}",
        *(escaped(line) for line in (closing(document), remembered_sentence(document)) if line is not None),
        *_next(document),
        escaped("; ".join(document.environment.lines())),
    ]
    references = {(head.pair, head.reference) for head in document.pairs}
    body = [
        (
            row.pair,
            f"{row.variant} (reference)" if (row.pair, row.variant) in references else row.variant,
            row.counts("forward"),
            row.counts("gradient"),
            str(len(row.cases)),
            short_meshes(row.meshes),
            " ".join(row.dtypes),
            " ".join(row.modes),
            row.lowest,
            " ".join(row.emulated),
        )
        for row in rows(document.results)
    ]
    if body:
        parts.append(markdown_table(ROWS, body))
    groups = accepted(document.results)
    if groups:
        parts.append("#### Only rounding, accepted by contract")
        cells = [(g.pair, g.variant, g.direction, g.leaf, g.measured(), g.reason) for g in groups]
        parts.append(markdown_table(LEAVES, cells))
    parts += _findings(document)
    parts += _failures(document)
    return "\n\n".join(parts) + "\n"


def _next(document: Document) -> list[str]:
    command = next_command(document)
    return [] if command is None else [_fenced([command])]


def _findings(document: Document) -> list[str]:
    lines = [f"problem: pair '{problem.pair}': {problem.message}" for problem in document.problems]
    lines += [
        f"{pair}/{variant}: {plural(len(known), 'known difference')}: {reason}"
        for (pair, variant, reason), known in exempted(document.results).items()
    ]
    lines += [
        f"{pair}: {plural(count, 'result')} on mesh {mesh} skipped, too few devices"
        for (pair, mesh), count in skipped(document.results).items()
    ]
    lines += [
        f"{pair}/{variant}: {plural(count, 'result')} not interpreted: {what}"
        for (pair, variant, what), count in not_interpreted(document.results).items()
    ]
    lines += document.summary.notes
    return ["#### Findings", "\n".join(f"- {escaped(line)}" for line in lines)] if lines else []


def _failures(document: Document) -> list[str]:
    points, more = failures(document.results)
    if not points:
        return []
    parts = ["#### Failures"]
    parts += [_fenced(point_block(leaves)) for leaves in points]
    if more:
        parts.append(f"{plural(more, 'more failing point')} not shown.")
    return parts


def markdown_table(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """A Markdown table, every cell in plain words."""
    lines = [head, ["---"] * len(head), *body]
    return "\n".join("| " + " | ".join(escaped(cell) for cell in line) + " |" for line in lines)


def escaped(text: str) -> str:
    """Plain words: what GitHub would read as markup is escaped, and a cell stays on one line."""
    text = " ".join(text.split())
    for sign in "\\|<>*`[]":
        text = text.replace(sign, f"\\{sign}")
    return text


def _fenced(lines: Sequence[str]) -> str:
    """Lines as they are, in a fence longer than any run of backticks in them."""
    longest = max((len(run) for line in lines for run in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return "\n".join([fence, *lines, fence])
