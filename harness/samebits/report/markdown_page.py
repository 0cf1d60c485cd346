"""Prints a page as Markdown for a pull request: at most 60 lines, or all of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from samebits.report.failing import opening
from samebits.report.markdown_fit import Part, Rows, escaped, fenced, fitted, table_rows, unfitted
from samebits.report.page import (
    Beside,
    Block,
    Code,
    CommandLine,
    Fold,
    Lines,
    Page,
    Table,
    ValueList,
    cell_text,
)
from samebits.report.words import TYPED


def markdown_page(page: Page, *, whole: bool = False) -> str:
    """Return a page as Markdown: what came out, what to run, the worst failures, then its blocks.

    Args:
        page: what a command found.
        whole: whether everything is written, as for a page of a documentation; else at most 60 lines.
    """
    head = f"{page.heading or TYPED.get(page.command, page.command)}: {page.word or page.state}"
    parts = opening(head, page.closing, page.failing, page.problems, page.next)
    if page.headline not in ("", page.closing) and not page.failing:
        parts.insert(1, escaped(page.headline))
    for block in (*page.live, *page.blocks):
        parts += _parts(block, whole)
    if page.notes:
        parts.append(Rows(title="Notes", rows=[f"- {escaped(note)}" for note in page.notes]))
    if page.environment is not None:
        parts.append(escaped("; ".join(page.environment.lines())))
    return unfitted(parts) if whole else fitted(parts)


def _parts(block: Block, whole: bool) -> list[Part]:
    return _PRINTERS[type(block)](block, whole) if "markdown" in block.media else []


def _lines(block: Lines, whole: bool) -> list[Part]:
    said = [each for each in block.said() if each.text]
    texts = [escaped(each.text) for each in said]
    bad = [number for number, each in enumerate(said) if each.tone == "bad"]
    if block.listed:
        rows = [f"- {text}" for text in texts]
        return [Rows(title=escaped(block.title), rows=rows, bad=frozenset(bad))] if rows else []
    return [*([f"#### {escaped(block.title)}"] if block.title else []), *texts]


def _values(block: ValueList, whole: bool) -> list[Part]:
    rows = [f"- {escaped(name)}: {escaped(value)}" for name, value in block.rows if value]
    return [Rows(rows=rows)] if rows else []


def _table(block: Table, whole: bool) -> list[Part]:
    if not block.rows:
        return []
    cells = [[cell_text(cell) for cell in row] for row in block.rows]
    table = table_rows(block.title, block.heads, cells, block.bad)
    parts: list[Part] = [replace(table, opened=False)]
    for number in sorted(block.details):
        if whole or number in block.bad:
            parts += _parts(block.details[number], whole)
    return parts


def _fold(block: Fold, whole: bool) -> list[Part]:
    parts, title = _every(block.blocks, whole), escaped(block.title)
    if title and parts and isinstance(parts[0], Rows) and not parts[0].title:
        return [replace(parts[0], title=title), *parts[1:]]  # may be folded with what it stands above
    return [*([f"#### {title}"] if title else []), *parts]


def _beside(block: Beside, whole: bool) -> list[Part]:
    return _every(block.blocks, whole)


def _every(blocks: Sequence[Block], whole: bool) -> list[Part]:
    return [part for block in blocks for part in _parts(block, whole)]


def _command(block: CommandLine, whole: bool) -> list[Part]:
    return [fenced([block.text])]


def _code(block: Code, whole: bool) -> list[Part]:
    return [*([f"#### {escaped(block.title)}"] if block.title else []), fenced(block.lines, block.language)]


_PRINTERS: dict[type, Callable[..., list[Part]]] = {
    Lines: _lines,
    ValueList: _values,
    Table: _table,
    Fold: _fold,
    Beside: _beside,
    CommandLine: _command,
    Code: _code,
}
