"""The report of a check for a pull request, in GitHub's Markdown."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace

from samebits.report.causes.cause import Cause, document_causes, first_command
from samebits.report.document import Document
from samebits.report.failure import point_block, shown_example
from samebits.report.markdown_fit import Part, Rows, fitted
from samebits.report.tally import accepted, rows
from samebits.report.terminal_rows import note_lines
from samebits.report.words import closing, is_empty_shard, plural, remembered_sentence, short_meshes

WORST = 5
"""Causes that are explained; the others are folded."""

LONGEST = 400
"""Characters of a text in the list of causes."""

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
        return ["#### Failures", f"Likely cause: {_short(first.likely)}", fenced(point_block(first.results))]
    causes = "1 cause" if len(listed) == 1 else f"{len(listed)} causes"
    count = sum(len(cause.results) for cause in listed)
    parts: list[Part] = [f"#### Failures: {plural(count, 'result')}, {causes}"]
    parts.append("\n".join(text for number, cause in enumerate(listed[:WORST], 1) for text in _item(number, cause)))
    others = [f"- **{_short(cause.title)}**: {_short(cause.likely)}" for cause in listed[WORST:]]
    if others:
        parts.append(Rows(title=f"{plural(len(others), 'more cause')}", rows=others, folded=True))
    return parts


def _item(number: int, cause: Cause) -> list[str]:
    """One cause as an item of a list."""
    place, *values = shown_example(cause.example)
    only = "".join(f"; {escaped(text)}" for text in cause.only)
    lines = [f"{number}. **{_short(cause.title)}**{only}", f"   - likely: {_short(cause.likely)}"]
    lines.append(f"   - where: {escaped(cause.where)}; smallest: {_short('; '.join((place, *values)))}")
    return [*lines, *([f"   - `{cause.next_command}`"] if cause.next_command and "`" not in cause.next_command else [])]


def _short(text: str) -> str:
    """A text of limited length in plain words."""
    return escaped(text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…")


def table_rows(title: str, head: Sequence[str], body: Sequence[Sequence[str]], bad: Collection[int] = ()) -> Rows:
    """A table that may be folded and cut.

    Args:
        title: what stands above it.
        head: names of the columns.
        body: the cells.
        bad: numbers of the rows that need attention.
    """
    lines = markdown_table(head, body).splitlines()
    return Rows(title=escaped(title), head=lines[:2], rows=lines[2:], bad=frozenset(bad))


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


def fenced(lines: Sequence[str]) -> str:
    """Lines as they are, in a fence longer than any run of backticks in them."""
    longest = max((len(run) for line in lines for run in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return "\n".join([fence, *lines, fence])
