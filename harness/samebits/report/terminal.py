"""The report of a check in a terminal: one screen by default, and every row where that is asked for."""

from __future__ import annotations

import io
import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TextIO

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from samebits.host.own_output import own_stdout
from samebits.report.causes.cause import Cause, document_causes, first_command
from samebits.report.document import Document
from samebits.report.failure import point_block, shown_example
from samebits.report.notes import note_lines
from samebits.report.screen import LINES, cut, height, height_of
from samebits.report.tables import line
from samebits.report.tally import SideTally, accepted, failures, rows
from samebits.report.words import (
    assumed_sentence,
    closing,
    is_empty_shard,
    plural,
    remembered_sentence,
    short_meshes,
    verdict_counts,
)
from samebits.schema.finding import Finding
from samebits.schema.shake_summary import COUNTED, ShakeSummary

WIDTH = 140
"""Columns of a table that is written to a file or a pipe, unless COLUMNS says otherwise."""


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
    for text in lines:
        line(to, text, "dim")


def show(to: Console, document: Document, *, verbose: bool = False) -> None:
    """The report but for its head.

    Args:
        to: where it is printed.
        document: of a check.
        verbose: whether every row is shown, however many there are; otherwise one screen.
    """
    listed = document_causes(document)
    end = _end(document, listed)
    if verbose:
        show_pairs(to, document)
        show_accepted(to, document)
        _shake(to, document)
        show_notes(to, document)
        show_failures(to, document)
    else:
        show_screen(to, document, listed, reserved=sum(height(text, to.width) for text, _ in end))
    for text, style in end:
        line(to, text, style)


def _end(document: Document, listed: Sequence[Cause]) -> list[tuple[str, str]]:
    """The last lines with their styles: what is remembered, one sentence for all, the next command."""
    nothing = not document.results and not is_empty_shard(document)
    failed = document.summary.failed or document.problems or nothing
    style = "bold red" if failed else "bold yellow" if document.incomplete else "bold green"
    command = first_command(listed)
    lines = [(remembered_sentence(document), ""), (assumed_sentence(document.results), "")]
    lines.append((closing(document), style))
    lines.append((None if command is None else f"next: {command}", ""))
    return [(text, style) for text, style in lines if text is not None]


COLUMNS = ("side", "forward", "gradient", "cases", "meshes", "contract", "emulated")

_STYLES = {"rounding": "yellow", "different": "bold red", "unstable": "bold red", "error": "bold red", "skipped": "dim"}


def show_pairs(to: Console, document: Document) -> None:
    """Per pair what it ran over, and below a line per side; the columns of all pairs are aligned."""
    tallies = rows(document.results)
    if not tallies:
        return
    references = {(head.pair, head.reference) for head in document.pairs}
    cells = {(row.pair, row.variant): _cells(row, (row.pair, row.variant) in references) for row in tallies}
    shown = [place for place in range(len(COLUMNS)) if place < 6 or any(cell[place].plain for cell in cells.values())]
    heads = [Text(name) for name in COLUMNS]
    widths = [max(len(cell[place]) for cell in (heads, *cells.values())) for place in range(len(COLUMNS))]
    if sum(widths[place] + 2 for place in shown) > to.width:
        cells = {key: [_stacked(cell) for cell in row] for key, row in cells.items()}
        widths = [0] * len(COLUMNS)
    for pair in dict.fromkeys(row.pair for row in tallies):
        own = [row for row in tallies if row.pair == pair]
        line(to)
        line(to, pair, "bold")
        for name in ("meshes", "dtypes", "modes", "cases"):
            values = dict.fromkeys(value for row in own for value in getattr(row, name))
            line(to, f"  {name:<7} {short_meshes(values) if name == 'meshes' else ' '.join(values)}", "dim")
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for place in shown:
            numeric = COLUMNS[place] in ("cases", "meshes")
            table.add_column(
                COLUMNS[place], justify="right" if numeric else "left", no_wrap=True, min_width=widths[place]
            )
        for row in own:
            own_cells = cells[row.pair, row.variant]
            table.add_row(*(own_cells[place] for place in shown))
        to.print(Padding(table, (0, 0, 0, 2), expand=False))
    line(to)


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


def show_accepted(to: Console, document: Document) -> None:
    """Where a contract accepts rounding and rounding came out, with the reason and how far it goes."""
    groups = accepted(document.results)
    if not groups:
        return
    line(to, "Only rounding, accepted by contract:", "bold")
    for pair, reason in dict.fromkeys((group.pair, group.reason) for group in groups):
        line(to, f"  {pair}: {reason}")
        for group in groups:
            if (group.pair, group.reason) == (pair, reason):
                line(to, f"    {group.variant}, {group.direction}, {group.leaf}: {group.measured()}", "yellow")
    line(to)


def show_notes(to: Console, document: Document) -> None:
    """The notes on a check."""
    lines = note_lines(document)
    if lines:
        line(to, "Notes:", "bold")
        for text in lines:
            line(to, f"  {text}")
        line(to)


def show_failures(to: Console, document: Document) -> None:
    """A block per failing point, of every kind some; points that say the same, as of an error, share one."""
    points, more = failures(document.results)
    blocks: dict[tuple[str, ...], list[str]] = {}
    for leaves in points:
        first, *rest = point_block(leaves)
        blocks.setdefault((leaves[0].place.pair, leaves[0].place.variant, *rest), []).append(first)
    for (_, _, *rest), (first, *others) in blocks.items():
        line(to, f"FAILED  {first}", "bold red")
        for other in others:
            line(to, f"        {other}", "bold red")
        for text in (*rest, ""):
            line(to, text)
    if more:
        line(to, f"{plural(more, 'more failing point')} not shown; --json FILE writes all of them", "bold red")
        line(to)


TITLES = 4
NOTES = 3
_WHOLE = 26
"""Lines of a single failing point that are shown as they are."""

_HINT = "--verbose prints every row, note and failure"

_Section = Callable[[Console, Document], None]


def show_screen(to: Console, document: Document, causes: Sequence[Cause], *, reserved: int = 0) -> None:
    """What fits on one screen.

    Args:
        to: where it is printed.
        document: of a check.
        causes: of its failures.
        reserved: lines that follow.
    """
    left = LINES - reserved - 1  # the hint
    shortest = _height_of(_FORMS[-1], to.width, document)
    failures = cause_lines(causes, to.width, left - shortest)
    forms = _fitting(to, document, left - sum(height(text, to.width) for text, _ in failures))
    for form in forms:
        form(to, document)
    for text, style in failures:
        line(to, text, style)
    if forms != _FORMS[0]:
        line(to, _HINT, "dim")


def cause_lines(causes: Sequence[Cause], width: int, most: int) -> list[tuple[str, str]]:
    """The groups of failures as lines with their styles, the first ones explained and the rest counted.

    Args:
        causes: gravest first; the first one is explained in any case.
        width: columns of the terminal.
        most: lines.
    """
    lines: list[tuple[str, str]] = []
    used = 0
    for place, cause in enumerate(causes):
        block = _block(cause, width, alone=len(causes) == 1)
        tall = sum(height(text, width) for text, _ in block)
        rest = sum(height(text, width) for text, _ in _rest(causes[place + 1 :], width))
        if place and used + tall + rest > most:
            return lines + _rest(causes[place:], width)
        lines += block
        used += tall
    return lines


def _block(cause: Cause, width: int, *, alone: bool) -> list[tuple[str, str]]:
    """One cause: whose, what it is, where, an example, and what to run."""
    points = {(r.place.case, r.place.dtype, r.place.mesh, r.place.mode, r.place.direction) for r in cause.results}
    first, *rest = point_block(cause.results)
    if alone and len(points) == 1 and sum(height(text, width) for text in rest) <= _WHOLE:
        # An error is its own explanation.
        likely = [] if cause.kind == "error" else [f"  likely    {cut(cause.likely, 2 * width - 12)}"]
        texts = [f"FAILED  {first}", *likely, *rest]
    else:
        head = "; ".join([cause.title, *cause.only])
        place, *values = shown_example(cause.example)
        texts = [
            cut(f"FAILED  {head}", width),
            f"  likely    {cut(cause.likely, 2 * width - 12)}",
            f"  where     {cut(cause.where, width - 12)}",
            f"  example   {cut(place, 2 * width - 12)}",
            *(f"            {cut(value, 2 * width - 12)}" for value in values),
        ]
        if cause.next_command is not None:
            texts.append(f"  next      {cause.next_command}")
    return [(text, "" if place else "bold red") for place, text in enumerate(texts)] + [("", "")]


def _rest(causes: Sequence[Cause], width: int) -> list[tuple[str, str]]:
    if not causes:
        return []
    lines = [(cut(f"FAILED  {cause.title}", width), "bold red") for cause in causes[:TITLES]]
    if len(causes) > TITLES:
        more = causes[TITLES:]
        count = sum(len(cause.results) for cause in more)
        text = f"{plural(len(more), 'more group')} with {plural(count, 'failing result')}"
        lines.append((cut(text, width), "bold red"))
    return [*lines, ("", "")]


def _fitting(to: Console, document: Document, left: int) -> tuple[_Section, ...]:
    """The longest forms of the sections that together take no more than so many lines; else the shortest."""
    return next((forms for forms in _FORMS if _height_of(forms, to.width, document) <= left), _FORMS[-1])


def _height_of(forms: Sequence[_Section], width: int, document: Document) -> int:
    def shown(to: Console) -> None:
        for form in forms:
            form(to, document)

    return height_of(shown, width)


def _shake(to: Console, document: Document) -> None:
    if document.shake is not None:
        show_shake(to, document.shake, document.results)


def _few_notes(to: Console, document: Document) -> None:
    notes = note_lines(document)
    for text in notes[:NOTES]:
        line(to, cut(f"note: {text}", 2 * to.width))
    if len(notes) > NOTES:
        line(to, f"and {plural(len(notes) - NOTES, 'more note')}")
    if notes or accepted(document.results):
        line(to)


def _few_accepted(to: Console, document: Document) -> None:
    pairs = Counter(group.pair for group in accepted(document.results))
    if pairs:
        line(to, cut(f"only rounding, accepted by contract, in {', '.join(pairs)}", to.width), "yellow")


def _pair_lines(to: Console, document: Document) -> None:
    """A line per pair."""
    wide = max((len(head.pair) for head in document.pairs), default=0)
    for head in document.pairs:
        counts = Counter(result.ruling.verdict for result in document.results if result.place.pair == head.pair)
        failed = sum(result.failed for result in document.results if result.place.pair == head.pair)
        text = f"{head.pair:<{wide}}  {verdict_counts(counts) or 'nothing'}"
        line(to, cut(text + (f"; {failed} fail" if failed else ""), to.width), "bold red" if failed else "")
    line(to)


def _pair_names(to: Console, document: Document) -> None:
    """The names of the pairs that hold, on a few lines; of a run that was interrupted, those that have no failure."""
    failing = {result.place.pair for result in document.results if result.failed}
    failing |= {problem.pair for problem in document.problems}
    holding = [
        head.pair
        for head in document.pairs
        if head.pair not in failing
        and any(r.place.pair == head.pair and r.ruling.verdict != "skipped" for r in document.results)
    ]
    if holding:
        count = plural(len(holding), "pair")
        # What of them did not run may differ.
        text, style = f"{count} hold{'s' if len(holding) == 1 else ''}", "green"
        if document.summary.interrupted:
            text, style = f"{count} without a failure so far", "yellow"
        line(to, cut(f"{text}: {', '.join(holding)}", 4 * to.width), style)
        line(to)


_FORMS: tuple[tuple[_Section, ...], ...] = (
    (show_pairs, show_accepted, _shake, show_notes),
    (show_pairs, show_accepted, _shake, _few_notes),
    (show_pairs, _few_accepted, _shake, _few_notes),
    (_pair_lines, _few_accepted, _shake, _few_notes),
    (_pair_names, _few_accepted, _shake, _few_notes),
    (_pair_names, _few_accepted, _few_notes),
)
"""Of each section one form, the longest first: notes, accepted rounding and the rows of pairs get shorter, in this
order. Failures are explained up to a number of lines, and then counted."""


def moved_leaves(results: Sequence[Finding]) -> list[str]:
    """A line for each leaf and option that changes its bits, results of other cases and meshes taken together."""
    results_by_leaf: dict[tuple[str, ...], list[tuple[Finding, int]]] = {}
    for result in results:
        for shaken in result.shaken:
            if shaken.outcome in ("fragile", "broken"):
                key = (
                    f"{result.place.pair}/{result.place.variant}",
                    result.place.direction,
                    result.place.leaf,
                    shaken.outcome,
                    shaken.option,
                )
                results_by_leaf.setdefault(key, []).append((result, shaken.mismatches))
    lines = []
    for (side, direction, leaf, outcome, option), differing in results_by_leaf.items():
        worst, count = max(differing, key=lambda pair: pair[1])
        more = f", and {plural(len(differing) - 1, 'more result')}" if len(differing) > 1 else ""
        where = f"case {worst.place.case}, {worst.place.dtype}, mesh {worst.place.mesh}"
        what = "bits differ" if outcome == "fragile" else "the contract breaks"
        extent = f"{count} of {worst.comparison.elements} ({where}{more})"
        lines.append(f"{side}, {direction}, {leaf}: {outcome}: {what} under {option}: {extent}")
    return lines


def show_shake(to: Console, shake: ShakeSummary, results: Sequence[Finding]) -> None:
    """The section on `check --shake`: a row per compiler option, a line per leaf whose bits it changes."""
    counts = ", ".join(f"{name} {count}" for name, count in shake.leaves.items()) or "none"
    line(to, f"Shaken, of the leaves whose bits are equal as usual: {counts}", "bold")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("compiler option", *COUNTED, "reference's own bits moved"):
        table.add_column(name, justify="left" if name == "compiler option" else "right", no_wrap=True)
    for row in shake.options:
        cells = [str(row.outcomes.get(name, "")) for name in COUNTED]
        moved = str(row.reference_moved or "") if row.effect else "no effect here: no evidence"
        table.add_row(row.option, *cells, moved, style="" if row.effect else "dim")
    to.print(Padding(table, (0, 0, 0, 2), expand=False))
    for text in moved_leaves(results):
        line(to, f"  {text}", "yellow")
    for name, why in shake.not_accepted.items():
        line(to, f"  {name}: not accepted here: {why}", "dim")
    if shake.left_out:
        line(to, f"  left out, for they move more than rounding: {', '.join(shake.left_out)}", "dim")
    line(to)
