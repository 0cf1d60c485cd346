"""Plain tables and lines in a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

WIDTH = 250
"""Columns of a table in a file or a pipe, so that its rows are lines."""

_RIGHT = (
    *("loss", "perplexity", "tok/s/device", "step ms", "temp MB", "headroom", "bf16 .3f", "step"),
    *("intensity", "needs", "has", "wants", "GFLOP", "comm MB", "compute us", "communication us"),
    *("predicted MB", "compiled MB"),
)


def show_table(to: Console, heads: list[str], rows: list[list[str]]) -> None:
    """A plain table."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in heads:
        table.add_column(name, justify="right" if name in _RIGHT else "left", no_wrap=True)
    for row in rows:
        style = "bold red" if any("FAILS" in cell for cell in row) else ""
        table.add_row(*(Text(cell, style) for cell in row))
    to.print(Padding(table, (0, 0, 0, 2), expand=False))


def line(to: Console, text: str = "", style: str = "") -> None:
    """One line, never broken."""
    to.print(Text(text, style), soft_wrap=True)
