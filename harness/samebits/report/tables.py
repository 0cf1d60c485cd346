"""Plain tables and lines in a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Sequence

from rich.console import Console, OverflowMethod
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

WIDTH = 250
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

    Args:
        to: where it is printed.
        heads: of the columns.
        rows: their cells, the first of which names the row.
        right: the heads of the columns that are aligned to the right.
        wrapped: the heads of the columns of text, which takes as many lines as it needs.
        least: characters of each column at least.
    """
    widths = [max(len(str(cell)) for cell in column) for column in zip(heads, *rows, strict=True)]
    least = [
        max(len(head), min(width, _NARROWEST)) if head in wrapped else max(width, at_least)
        for head, width, at_least in zip(heads, widths, least or widths, strict=True)
    ]
    if sum(least) + _BETWEEN * len(heads) > to.width:
        _show_lists(to, heads, rows)
        return
    table = Table(box=None, pad_edge=False, padding=(0, _BETWEEN, 0, 0))
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
    """One line, never broken."""
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
