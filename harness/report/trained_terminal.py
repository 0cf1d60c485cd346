"""Training runs as a person reads them in a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from harness.report.trained import (
    PAIRING_HEADS,
    TrainDocument,
    closing,
    cluster_lines,
    detection_table,
    envelope_lines,
    exit_code,
    expectation_lines,
    pairing_table,
    run_table,
)

WIDTH = 250
"""Columns of a table in a file or a pipe, so that its rows are lines."""

_RIGHT = ("loss", "perplexity", "tok/s/device", "step ms", "temp MB", "headroom", "bf16 .3f", "step")


def show_trained(to: Console, document: TrainDocument) -> None:
    """The tables of a document and what is said below them."""
    if not to.is_terminal:
        to.width = max(to.width, WIDTH)
    line(to)
    if document.results:
        steps = len(document.results[0].steps)
        line(to, f"{document.matrix}: {document.about}; after step {steps}, {document.results[0].dtype}", "bold")
        show_table(to, *run_table(document))
    for text in cluster_lines(document):
        line(to, f"  {text}", "dim")
    if document.comparisons:
        line(to)
        line(to, "compared", "bold")
        show_table(to, PAIRING_HEADS, pairing_table(document))
    for text in envelope_lines(document):
        line(to, text, "dim")
    for text in expectation_lines(document):
        line(to, text, "bold red" if "; expected" in text else "yellow")
    if document.detection is not None:
        line(to)
        line(to, "planted one at a time: which gate sees it", "bold")
        show_table(to, *detection_table(document.detection))
    for note in document.notes:
        line(to, note, "yellow")
    for problem in document.problems:
        line(to, f"could not run {problem.pair}: {problem.message}", "bold red")
    line(to, closing(document), "bold green" if exit_code(document) == 0 else "bold red")


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
