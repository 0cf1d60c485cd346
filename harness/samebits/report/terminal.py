"""Prints a page in a terminal: all of it, or what fits on one screen."""

from __future__ import annotations

import io
import os
import textwrap
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import TextIO

from rich.console import Console, OverflowMethod
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from samebits.host.own_output import own_stdout
from samebits.report.page import (
    Badge,
    Beside,
    Block,
    Cell,
    Code,
    CommandLine,
    Failing,
    Fold,
    Lines,
    Page,
    Table,
    Tone,
    ValueList,
    first_lines,
)
from samebits.report.words import plural

WIDTH = 140
"""Columns of a table that is written to a file or a pipe, unless COLUMNS says otherwise."""


class _Console(Console):
    """A console for a command whose exit code means something."""

    def on_broken_pipe(self) -> None:
        """Print nothing more once the reader has closed the pipe (`samebits check | head`); rich would exit with 1."""
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), self.file.fileno())


def console(file: TextIO | None = None) -> Console:
    """Make a console that prints text as it is: no markup, no guessed colours, plain where there is no terminal."""
    file = file or own_stdout()
    if isinstance(file, io.TextIOWrapper):
        file.reconfigure(errors="backslashreplace")  # a reason may hold what an ASCII terminal cannot show
    columns = os.environ.get("COLUMNS", "")
    width = None if file.isatty() else int(columns) if columns.isdigit() and int(columns) else WIDTH
    return _Console(file=file, width=width, markup=False, highlight=False, emoji=False)


def show_head(to: Console, lines: Iterable[str]) -> None:
    """Print the environment, before anything runs."""
    for text in lines:
        line(to, text, "dim")


LINES = 40
"""Lines of a report on one screen: with its end, without its head, which says the environment."""

Styled = tuple[str, str]
"""A line with its style."""


def height(text: str, width: int) -> int:
    """Return how many lines a text takes in a terminal of so many columns."""
    return max(1, -(-len(text) // width))


def cut(text: str, most: int) -> str:
    """Return a text of at most so many characters, on one line."""
    text = text.rstrip()
    return text if len(text) <= most else f"{text[: max(most - 1, 1)]}…"


def height_of(blocks: Sequence[Block], width: int) -> int:
    """Return how many lines blocks take in a terminal of so many columns."""
    written = io.StringIO()
    _print(Console(file=written, width=width, markup=False, highlight=False, emoji=False), blocks)
    return sum(height(text, width) for text in written.getvalue().splitlines())


def tall(lines: Sequence[Styled], width: int) -> int:
    """Return how many lines such lines take in a terminal of so many columns."""
    return sum(height(text, width) for text, _ in lines)


ROW_WIDTH = 250
"""Columns of a table in a file or a pipe, so that its rows are lines."""


def show_table(
    to: Console,
    heads: Sequence[str],
    rows: Sequence[Sequence[Text]],
    right: Collection[str] = (),
    wrapped: Collection[str] = (),
    least: Sequence[int] = (),
) -> None:
    """Print a plain table; where its columns do not fit, each row as its first cell and a list of the others.

    A digit that is cut off would be another number.
    """
    widths = [max(len(str(cell)) for cell in column) for column in zip(heads, *rows, strict=True)]
    least = [
        max(len(head), min(width, _NARROWEST)) if head in wrapped else max(width, at_least)
        for head, width, at_least in zip(heads, widths, least or widths, strict=True)
    ]
    if sum(least) + _BETWEEN * len(heads) > to.width:
        _show_lists(to, heads, rows)
        return
    table = RichTable(box=None, pad_edge=False, padding=(0, _BETWEEN, 0, 0))
    for name, width in zip(heads, least, strict=True):
        text = name in wrapped
        overflow: OverflowMethod = "fold" if text else "crop"
        table.add_column(
            name, justify="right" if name in right else "left", no_wrap=not text, overflow=overflow, min_width=width
        )
    for row in rows:
        table.add_row(*row)
    to.print(Padding(table, (0, 0, 0, 2), expand=False))


def line(to: Console, text: str = "", style: str = "") -> None:
    """Print one line, never broken."""
    to.print(Text(text, style), soft_wrap=True)


_BETWEEN = 2
"""Blanks between two columns."""

_NARROWEST = 24
"""Characters in a line of text that is wrapped."""

_JOINED = "\0"
"""Stands for a blank at which no line is broken."""


def _show_lists(to: Console, heads: Sequence[str], rows: Sequence[Sequence[Text]]) -> None:
    for name, *cells in rows:
        to.print(Text("  ").append(name.plain, name.style or "bold"), soft_wrap=True)
        pieces = [f"{head} {cell}" for head, cell in zip(heads[1:], cells, strict=True) if cell.plain]
        text = ", ".join(piece.replace(" ", _JOINED) if len(piece) < 2 * _NARROWEST else piece for piece in pieces)
        style = next((cell.style for cell in cells if cell.style), "")
        indented = textwrap.fill(
            text, max(to.width, 2 + _NARROWEST), initial_indent="    ", subsequent_indent="    ",
            break_long_words=False, break_on_hyphens=False,
        )  # fmt: skip
        to.print(Text(indented.replace(_JOINED, " "), style), soft_wrap=True)


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
    """Print a page, its closing sentence and the next command last."""
    _widen(to)
    blocks: list[Block] = [*([] if live else page.live), *page.blocks]
    groups = [] if page.explained else page.failing
    failing = failing_lines(groups, to.width)
    end = _end(page, page.notes)
    if verbose and page.each:
        blocks, failing = [*blocks, *page.each], []
    if page.hint and not verbose:
        end = _end(page, _few(page.notes))
        left = LINES - tall(end, to.width)
        if height_of(blocks, to.width) + tall(failing, to.width) > left:
            end = [(page.hint, "dim"), *end]
            least = height_of([_shortest(block) for block in blocks], to.width)
            failing = failing_lines(groups, to.width, max(left - 1 - least, left // 2))
            blocks = _fitted(blocks, to.width, left - 1 - tall(failing, to.width))
            failing = failing_lines(groups, to.width, left - 1 - height_of(blocks, to.width))
    _print(to, blocks)
    for text, style in [*failing, *end]:
        line(to, text, style)


def _shortest(block: Block) -> Block:
    short = getattr(block, "short", None)
    return block if short is None else _shortest(short)


def _fitted(blocks: Sequence[Block], width: int, most: int) -> list[Block]:
    """Return blocks of at most so many lines: the tallest is shortened, or else left out, again and again."""
    chosen = [*blocks]
    heights = [height_of([block], width) for block in chosen]
    while chosen and sum(heights) > most:
        able = [number for number, block in enumerate(chosen) if getattr(block, "short", None)] or range(len(chosen))
        tallest = max(able, key=heights.__getitem__)
        short = getattr(chosen[tallest], "short", None)
        chosen[tallest : tallest + 1] = [] if short is None else [short]
        heights[tallest : tallest + 1] = [] if short is None else [height_of([short], width)]
    return chosen


def show_blocks(to: Console, blocks: Sequence[Block]) -> None:
    """Print blocks, as a command finds them."""
    _widen(to)
    _print(to, blocks)


def blocks_text(blocks: Sequence[Block]) -> str:
    """Return blocks as plain text."""
    written = io.StringIO()
    show_blocks(Console(file=written, markup=False, highlight=False, emoji=False), blocks)
    return "\n".join(text.rstrip() for text in written.getvalue().strip("\n").splitlines())


def _widen(to: Console) -> None:
    """Make rows of tables lines in a file or a pipe, unless COLUMNS says otherwise."""
    if not to.is_terminal and not os.environ.get("COLUMNS"):
        to.width = max(to.width, ROW_WIDTH)


def _end(page: Page, notes: Sequence[str]) -> list[Styled]:
    style = STYLES[{"passed": "good", "failed": "bad", "incomplete": "warn"}[page.state]]  # type: ignore[index]
    end: list[Styled] = [(note, "yellow") for note in notes]
    end.append((page.closing, "bold yellow" if page.state == "incomplete" else style))
    return end + ([(f"next: {page.next}", "")] if page.next else [])


def _few(notes: Sequence[str]) -> list[str]:
    if len(notes) <= NOTES:
        return [*notes]
    return [*notes[:NOTES], f"and {plural(len(notes) - NOTES, 'more note')}; --json FILE has all"]


def _print(to: Console, blocks: Sequence[Block]) -> None:
    for block in blocks:
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
    _print(to, [block.details[number] for number in sorted(set(block.details) & set(block.bad))])


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
    _print(to, block.blocks)


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
    Beside: lambda to, block: _print(to, block.blocks),
    CommandLine: lambda to, block: line(to, f"  {block.label}: {block.text}"),
    Code: _show_code,
}


# --- what fails

_WHOLE = 26
"""Lines of a terminal that the only group may take as it is."""

_NAMED = 4
"""Groups that are named, of those that are not explained."""


def failing_lines(groups: Sequence[Failing], width: int, most: int | None = None) -> list[Styled]:
    """Return lines for a terminal that explain the first groups, name some more, and count the others."""
    lines: list[Styled] = [(text, "") for group in groups[:1] for text in (*group.whole, "")]
    if len(groups) == 1 and len(lines) > 1 and tall(lines, width) <= _WHOLE:
        return [(f"FAILED  {lines[0][0]}", "bold red"), *lines[1:]]
    lines, used = [], 0
    for number, group in enumerate(groups):
        block = _group_lines(group, width)
        if most is not None and number and used + tall([*block, *_named(groups[number + 1 :], width)], width) > most:
            return lines + _named(groups[number:], width)
        lines += block
        used += tall(block, width)
    return lines


def _group_lines(group: Failing, width: int) -> list[Styled]:
    parts = [("likely", group.likely), ("where", group.where)]
    parts += [("" if number else "example", text) for number, text in enumerate(group.example.splitlines())]
    lines = [f"  {name:<9} {cut(text, 2 * width - 12)}" for name, text in parts if text]
    lines += [f"  next      {group.next_command}"] if group.next_command else []  # is copied, so it is whole
    return [_title(group, width), *((text, "") for text in lines), ("", "")]


def _title(group: Failing, width: int) -> Styled:
    return cut(f"FAILED  {'; '.join([group.title, *group.only])}", width), "bold red"


def _named(groups: Sequence[Failing], width: int) -> list[Styled]:
    if not groups:
        return []
    lines = [_title(group, width) for group in groups[:_NAMED]]
    if len(groups) > _NAMED:
        count = sum(len(group.findings) for group in groups[_NAMED:])
        counted = f" with {plural(count, 'failing result')}" if count else ""
        lines.append((plural(len(groups) - _NAMED, "more group") + counted, "bold red"))
    return [*lines, ("", "")]
