"""Prints a page in a terminal: all of it, or what fits on one screen."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Sequence
from dataclasses import replace

from rich.console import Console
from rich.text import Text

from samebits.report.failing import failing_lines
from samebits.report.page import (
    Badge,
    Beside,
    Block,
    Cell,
    Code,
    CommandLine,
    Fold,
    Lines,
    Page,
    Table,
    Tone,
    ValueList,
    first_lines,
)
from samebits.report.screen import LINES, Form, Styled, cut, height_of, tall
from samebits.report.tables import WIDTH, line, show_table
from samebits.report.words import plural

STYLES: dict[Tone, str] = {
    "": "",
    "good": "bold green",
    "warn": "yellow",
    "bad": "bold red",
    "dim": "dim",
    "strong": "bold",
}

_MARKS = {"added": "green", "removed": "red", "": "dim"}

NOTES = 3
"""Notes that are shown where not everything is."""


def show_page(to: Console, page: Page, *, verbose: bool = False, live: bool = False) -> None:
    """Print a page, its closing sentence and the next command last.

    Args:
        to: where it is printed.
        page: what a command found.
        verbose: whether all of it is printed, however long it is; otherwise one screen, where the page has a hint.
        live: whether its live blocks have been printed already.
    """
    _widen(to)
    blocks: list[Block] = [*([] if live else page.live), *page.blocks]
    failing = failing_lines(page.failing, to.width)
    end = _end(page, page.notes)
    if verbose and page.each:
        blocks, failing = [*blocks, *page.each], []
    if page.hint and not verbose:
        end = _end(page, _few(page.notes))
        left = LINES - tall(end, to.width)
        if height_of(_blocks(blocks), to.width) + tall(failing, to.width) > left:
            end = [(page.hint, "dim"), *end]
            least = height_of(_blocks([_shortest(block) for block in blocks]), to.width)
            failing = failing_lines(page.failing, to.width, max(left - 1 - least, left // 2))
            blocks = _fitted(blocks, to.width, left - 1 - tall(failing, to.width))
            failing = failing_lines(page.failing, to.width, left - 1 - height_of(_blocks(blocks), to.width))
    _blocks(blocks)(to)
    for text, style in [*failing, *end]:
        line(to, text, style)


def _shortest(block: Block) -> Block:
    short = getattr(block, "short", None)
    return block if short is None else _shortest(short)


def _fitted(blocks: Sequence[Block], width: int, most: int) -> list[Block]:
    """Return blocks of at most so many lines: the tallest is shortened, or where none can be left out, again and again.

    Args:
        blocks: in order.
        width: columns of the terminal.
        most: lines.
    """
    chosen = [*blocks]
    heights = [height_of(_blocks([block]), width) for block in chosen]
    while chosen and sum(heights) > most:
        able = [number for number, block in enumerate(chosen) if getattr(block, "short", None)] or range(len(chosen))
        tallest = max(able, key=heights.__getitem__)
        short = getattr(chosen[tallest], "short", None)
        chosen[tallest : tallest + 1] = [] if short is None else [short]
        heights[tallest : tallest + 1] = [] if short is None else [height_of(_blocks([short]), width)]
    return chosen


def show_blocks(to: Console, blocks: Sequence[Block]) -> None:
    """Print blocks, as a command finds them."""
    _widen(to)
    _blocks(blocks)(to)


def blocks_text(blocks: Sequence[Block]) -> str:
    """Return blocks as plain text."""
    written = io.StringIO()
    show_blocks(Console(file=written, markup=False, highlight=False, emoji=False), blocks)
    return "\n".join(text.rstrip() for text in written.getvalue().strip("\n").splitlines())


def _widen(to: Console) -> None:
    """Make rows of tables lines in a file or a pipe, unless COLUMNS says otherwise."""
    if not to.is_terminal and not os.environ.get("COLUMNS"):
        to.width = max(to.width, WIDTH)


def _end(page: Page, notes: Sequence[str]) -> list[Styled]:
    style = STYLES[{"passed": "good", "failed": "bad", "incomplete": "warn"}[page.state]]  # type: ignore[index]
    end: list[Styled] = [(note, "yellow") for note in notes]
    end.append((page.closing, "bold yellow" if page.state == "incomplete" else style))
    return end + ([(f"next: {page.next}", "")] if page.next else [])


def _few(notes: Sequence[str]) -> list[str]:
    if len(notes) <= NOTES:
        return [*notes]
    return [*notes[:NOTES], f"and {plural(len(notes) - NOTES, 'more note')}; --json FILE has all"]


def _blocks(blocks: Sequence[Block]) -> Form:
    def form(to: Console) -> None:
        for block in blocks:
            _show(to, block)

    return form


def _show(to: Console, block: Block) -> None:
    if "terminal" in block.media:
        _PRINTERS[type(block)](to, block)


def _show_lines(to: Console, block: Lines) -> None:
    if block.title:
        line(to, block.title, "bold")
    for said in block.said():
        text = " " * block.indent + said.text if said.text else ""
        line(to, cut(text, block.cut * to.width) if block.cut else text, STYLES[said.tone])


def _show_values(to: Console, block: ValueList) -> None:
    rows = [(name, value) for name, value in block.rows if value]
    wide = max(block.least, *(len(name) for name, _ in rows), 0)
    for name, value in rows:
        line(to, f"{' ' * block.indent}{name:<{wide}}  {value}")


def _show_table(to: Console, block: Table) -> None:
    if not block.rows:
        return
    if block.title:
        line(to)
        line(to, block.title, "bold")
    columns = [(place, head) for place, head in enumerate(block.heads) if head not in block.not_in_terminal]
    rows = [
        [_cell(block, head, row[place], number in block.bad) for place, head in columns]
        for number, row in enumerate(block.rows)
    ]
    if rows:
        heads, wrapped = [head for _, head in columns], () if block.most else block.wide
        show_table(to, heads, rows, right=block.right, wrapped=wrapped, least=block.least)
    for number in sorted(set(block.details) & set(block.bad)):
        _show(to, block.details[number])


def _cell(block: Table, head: str, cell: Cell, bad: bool) -> Text:
    if isinstance(cell, tuple):
        return Text(", ").join(_cell(block, head, each, bad) for each in cell)
    text, tone = (cell.text, cell.tone) if isinstance(cell, Badge) else (cell, "")
    if block.most is not None and head in block.wide:
        text = cut(text, block.most)
    return Text(text, "bold red" if bad else STYLES[tone])


def _show_fold(to: Console, block: Fold) -> None:
    if block.title:
        line(to)
        line(to, block.title, "bold")
    _blocks(block.blocks)(to)


def _show_beside(to: Console, block: Beside) -> None:
    _blocks(block.blocks)(to)


def _show_command(to: Console, block: CommandLine) -> None:
    line(to, f"  {block.label}: {block.text}")


def _show_code(to: Console, block: Code) -> None:
    if block.title:
        line(to, block.title, "bold")
    for mark, text in replace(block, lines=first_lines(block.lines, block.most)).marked():
        line(to, f"  {text}", _MARKS[mark])


_PRINTERS: dict[type, Callable[..., None]] = {
    Lines: _show_lines,
    ValueList: _show_values,
    Table: _show_table,
    Fold: _show_fold,
    Beside: _show_beside,
    CommandLine: _show_command,
    Code: _show_code,
}
