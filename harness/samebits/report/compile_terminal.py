"""The side-by-side tables of `samebits compile` in a terminal."""

from __future__ import annotations

import io
from collections.abc import Iterable

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from samebits.report.compile import (
    EXPLAINED,
    CompileDocument,
    ProgramBlock,
    claim_line,
    closing,
    effect_line,
    verdict_line,
)
from samebits.schema.program_facts import CompiledSide

WIDTH = 168
"""Columns of a table in a file or a pipe, so that its rows are lines."""

_LEFT = ("side", "collectives", "SparseCore", "program")


def show_end(to: Console, document: CompileDocument) -> None:
    """What follows the tables: how to read them, notes, and one sentence for all."""
    _line(to)
    if document.results:
        _line(to, EXPLAINED, "dim")
    for note in document.notes:
        _line(to, note, "yellow")
    s = document.summary
    bad = s.failed or document.problems or not document.results
    _line(to, closing(document), "bold red" if bad else "bold yellow" if s.unknown or s.interrupted else "bold green")
    again = next((program.replay for program in document.results if _failing(document, program)), None)
    if again is not None:
        _line(to, f"next: {again}")


def _failing(document: CompileDocument, program: CompiledSide) -> bool:
    where = (program.pair, program.side, program.case, program.direction, program.target)
    return any(
        (comparison.pair, comparison.variant, comparison.case, comparison.direction, comparison.target) == where
        and any(not judged.ok for judged in comparison.expectations)
        for comparison in document.comparisons
    )


def show_block(to: Console, block: ProgramBlock) -> None:
    """One table with what is said below it."""
    if not to.is_terminal:
        to.width = max(to.width, WIDTH)
    _line(to)
    _line(to, block.title, "bold")
    heads, rows = block.table()
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in heads:
        table.add_column(name, justify="left" if name in _LEFT else "right", no_wrap=name != "collectives")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    to.print(Padding(table, (0, 0, 0, 2), expand=False))
    for comparison in block.comparisons:
        if comparison.variant != comparison.reference:
            _line(to, f"  {verdict_line(comparison)}", "bold green" if comparison.verdict else "")
        for judged in comparison.expectations:
            style = "green" if judged.ok and judged.finding is None else "yellow" if judged.ok else "bold red"
            _line(to, f"    {claim_line(comparison.variant, judged)}", style)
    for effect in block.effects:
        _line(to, f"  {effect_line(effect)}", "yellow" if effect.changed else "dim")


def blocks_text(blocks: Iterable[ProgramBlock]) -> str:
    """Tables as plain text."""
    written = io.StringIO()
    to = Console(file=written, width=WIDTH, markup=False, highlight=False, emoji=False)
    for block in blocks:
        show_block(to, block)
    return "\n".join(line.rstrip() for line in written.getvalue().strip("\n").splitlines())


def _line(to: Console, text: str = "", style: str = "") -> None:
    to.print(Text(text, style), soft_wrap=True)
