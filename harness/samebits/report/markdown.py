"""The report of a check for a pull request, in GitHub's Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from samebits.report.causes.cause import Cause, document_causes, first_command
from samebits.report.document import Document
from samebits.report.failing import Failing, failing_parts, shortly
from samebits.report.failure import point_block, shown_example
from samebits.report.markdown_fit import Part, Rows, escaped, fenced, fitted, table_rows
from samebits.report.notes import note_lines
from samebits.report.tally import accepted, rows
from samebits.report.words import closing, is_empty_shard, plural, remembered_sentence, short_meshes

ROWS = ("pair", "variant", "forward", "gradient", "cases", "meshes", "dtypes", "modes", "contract", "emulated")
LEAVES = ("pair", "variant", "direction", "leaf", "measured here", "reason")


def markdown(document: Document) -> str:
    """The document as Markdown on at most 60 lines: what came out, the worst causes, tables, environment."""
    s = document.summary
    failed = s.failed or document.problems or not (s.cases or is_empty_shard(document))
    state = "incomplete" if s.interrupted or (document.incomplete and not failed) else "failed" if failed else "passed"
    listed = document_causes(document)
    command = first_command(listed)
    remembered = remembered_sentence(document)
    parts: list[Part] = [f"### samebits check: {state}", escaped(closing(document))]
    parts += [] if remembered is None else [escaped(remembered)]
    parts += [] if command is None else [fenced([command])]
    parts += _failures(listed)
    parts += [part for part in (_sides(document), _accepted(document), _findings(document)) if part.rows]
    parts.append(escaped("; ".join(document.environment.lines())))
    return fitted(parts)


def _sides(document: Document) -> Rows:
    """A row per side."""
    references = {(head.pair, head.reference) for head in document.pairs}
    tallies = rows(document.results)
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
        for row in tallies
    ]
    pairs = plural(len({row.pair for row in tallies}), "pair")
    failing = [number for number, row in enumerate(tallies) if row.failed]
    return replace(table_rows(f"Results of {pairs}", ROWS, body, failing), opened=False)


def _accepted(document: Document) -> Rows:
    cells = [(g.pair, g.variant, g.direction, g.leaf, g.measured(), g.reason) for g in accepted(document.results)]
    return table_rows("Only rounding, accepted by contract", LEAVES, cells)


def _findings(document: Document) -> Rows:
    lines = [f"problem: pair '{problem.pair}': {problem.message}" for problem in document.problems]
    lines += note_lines(document)
    return Rows(
        title="Findings", rows=[f"- {escaped(text)}" for text in lines], bad=frozenset(range(len(document.problems)))
    )


def _failures(listed: Sequence[Cause]) -> list[Part]:
    """The worst causes, and the others folded."""
    if not listed:
        return []
    if len(listed) == 1 and len(listed[0].results) == 1:
        first = listed[0]
        return ["#### Failures", f"Likely cause: {shortly(first.likely)}", fenced(point_block(first.results))]
    results = plural(sum(len(cause.results) for cause in listed), "result")
    return failing_parts([_group(cause) for cause in listed], f"{results}, ", noun="cause", example="smallest")


def _group(cause: Cause) -> Failing:
    return Failing(
        title=cause.title,
        only=cause.only,
        likely=cause.likely,
        where=cause.where,
        example="; ".join(shown_example(cause.example)),
        next_command=cause.next_command,
    )
