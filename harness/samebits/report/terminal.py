"""The report of a check in a terminal: a row per side, accepted rounding, notes, failures, one sentence."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable
from typing import TextIO

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from samebits.host.own_output import own_stdout
from samebits.report.document import Document
from samebits.report.failure import point_block
from samebits.report.shake import show_shake
from samebits.report.tally import SideTally, accepted, exempted, failures, not_interpreted, rows, skipped
from samebits.report.words import closing, next_command, plural, remembered_sentence, short_meshes

WIDTH = 140
"""Columns of a table that is written to a file or a pipe, unless COLUMNS says otherwise."""

COLUMNS = ("side", "forward", "gradient", "cases", "meshes", "contract", "emulated")

_STYLES = {"rounding": "yellow", "different": "bold red", "unstable": "bold red", "error": "bold red", "skipped": "dim"}


class _Console(Console):
    """A console for a command whose exit code means something."""

    def on_broken_pipe(self) -> None:
        """Print nothing more once the reader has closed the pipe (`samebits check | head`); rich would exit with 1."""
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), self.file.fileno())


def console(file: TextIO | None = None) -> Console:
    """A console that prints text as it is: no markup, no guessed colours, plain where stdout is not a terminal."""
    file = file or own_stdout()
    if isinstance(file, io.TextIOWrapper):
        file.reconfigure(errors="backslashreplace")  # a reason may hold what an ASCII terminal cannot show
    columns = os.environ.get("COLUMNS", "")
    width = None if file.isatty() else int(columns) if columns.isdigit() and int(columns) else WIDTH
    return _Console(file=file, width=width, markup=False, highlight=False, emoji=False)


def show_head(to: Console, lines: Iterable[str]) -> None:
    """The environment, before anything runs."""
    for line in lines:
        _line(to, line, "dim")


def show(to: Console, document: Document) -> None:
    """The whole report but the head."""
    _show_pairs(to, document)
    _show_accepted(to, document)
    if document.shake is not None:
        show_shake(to, document.shake, document.results)
    _show_notes(to, document)
    _show_failures(to, document)
    failed = document.summary.failed or document.problems or not document.results
    remembered = remembered_sentence(document)
    if remembered is not None:
        _line(to, remembered)
    style = "bold red" if failed else "bold yellow" if document.summary.interrupted else "bold green"
    _line(to, closing(document), style)
    command = next_command(document)
    if command is not None:
        _line(to, f"next: {command}")


def _show_pairs(to: Console, document: Document) -> None:
    """Per pair what it ran over, and below a line per side; the columns of all pairs are aligned."""
    tallies = rows(document.results)
    if not tallies:
        return
    references = {(head.pair, head.reference) for head in document.pairs}
    cells = {(row.pair, row.variant): _cells(row, (row.pair, row.variant) in references) for row in tallies}
    shown = [place for place in range(len(COLUMNS)) if place < 6 or any(line[place].plain for line in cells.values())]
    heads = [Text(name) for name in COLUMNS]
    widths = [max(len(line[place]) for line in (heads, *cells.values())) for place in range(len(COLUMNS))]
    if sum(widths[place] + 2 for place in shown) > to.width:
        cells = {key: [_stacked(cell) for cell in line] for key, line in cells.items()}
        widths = [0] * len(COLUMNS)
    for pair in dict.fromkeys(row.pair for row in tallies):
        own = [row for row in tallies if row.pair == pair]
        _line(to)
        _line(to, pair, "bold")
        for name in ("meshes", "dtypes", "modes", "cases"):
            values = dict.fromkeys(value for row in own for value in getattr(row, name))
            _line(to, f"  {name:<7} {short_meshes(values) if name == 'meshes' else ' '.join(values)}", "dim")
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for place in shown:
            numeric = COLUMNS[place] in ("cases", "meshes")
            table.add_column(
                COLUMNS[place], justify="right" if numeric else "left", no_wrap=True, min_width=widths[place]
            )
        for row in own:
            line = cells[row.pair, row.variant]
            table.add_row(*(line[place] for place in shown))
        to.print(Padding(table, (0, 0, 0, 2), expand=False))
    _line(to)


def _cells(row: SideTally, is_reference: bool) -> list[Text]:
    return [
        Text(f"{row.variant} (reference)" if is_reference else row.variant),
        _coloured(row, "forward"),
        _coloured(row, "gradient"),
        Text(str(len(row.cases))),
        Text(str(len(row.meshes))),
        Text(row.lowest),
        Text(" ".join(row.emulated)),
    ]


def _stacked(cell: Text) -> Text:
    """A list of verdicts with one verdict to a line, for a narrow terminal."""
    return Text(",\n").join(cell.split(", "))


def _coloured(row: SideTally, direction: str) -> Text:
    return Text(", ").join(
        Text(words, "yellow" if words.endswith("(known)") else _STYLES.get(verdict, "green"))
        for verdict, words in row.parts(direction)
    )


def _show_accepted(to: Console, document: Document) -> None:
    groups = accepted(document.results)
    if not groups:
        return
    _line(to, "Only rounding, accepted by contract:", "bold")
    for pair, reason in dict.fromkeys((group.pair, group.reason) for group in groups):
        _line(to, f"  {pair}: {reason}")
        for group in groups:
            if (group.pair, group.reason) == (pair, reason):
                _line(to, f"    {group.variant}, {group.direction}, {group.leaf}: {group.measured()}", "yellow")
    _line(to)


def _show_notes(to: Console, document: Document) -> None:
    lines = [
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
    if lines:
        _line(to, "Notes:", "bold")
        for line in lines:
            _line(to, f"  {line}")
        _line(to)


def _show_failures(to: Console, document: Document) -> None:
    points, more = failures(document.results)
    for leaves in points:
        first, *rest = point_block(leaves)
        _line(to, f"FAILED  {first}", "bold red")
        for line in (*rest, ""):
            _line(to, line)
    if more:
        _line(to, f"{plural(more, 'more failing point')} not shown; --json FILE writes all of them", "bold red")
        _line(to)


def _line(to: Console, text: str = "", style: str | None = None) -> None:
    """A line that the terminal may wrap but we do not, so that a replay line can be copied whole."""
    to.print(Text(text, style or ""), soft_wrap=True)
