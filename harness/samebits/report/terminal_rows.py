"""The sections of a check's report in full: a row per side, accepted rounding, notes, every failure."""

from __future__ import annotations

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from samebits.report.document import Document
from samebits.report.failure import point_block
from samebits.report.other_magnitudes import other_input_notes
from samebits.report.output_layouts import layout_notes
from samebits.report.tables import line
from samebits.report.tally import SideTally, accepted, exempted, failures, not_interpreted, rows, skipped
from samebits.report.words import plural, short_meshes

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
    """Known differences, what was skipped or not interpreted, outputs laid out otherwise, and the notes of the run."""
    lines = note_lines(document)
    if lines:
        line(to, "Notes:", "bold")
        for text in lines:
            line(to, f"  {text}")
        line(to)


def note_lines(document: Document) -> list[str]:
    """What `show_notes` says, a line each."""
    lines = [
        f"{pair}/{variant}: {plural(len(known), 'known difference')}: {reason}"
        for (pair, variant, reason), known in exempted(document.results).items()
    ]
    lines += [
        f"{pair}: {plural(count, 'result')} on mesh {mesh} skipped: {reason}"
        for (pair, mesh, reason), count in skipped(document.results).items()
    ]
    lines += [
        f"{pair}/{variant}: {plural(count, 'result')} not interpreted: {what}"
        for (pair, variant, what), count in not_interpreted(document.results).items()
    ]
    return [*lines, *other_input_notes(document.results), *layout_notes(document), *document.summary.notes]


def show_failures(to: Console, document: Document) -> None:
    """A block per failing point, of every kind some; points that say the same, as of an error, share one."""
    points, more = failures(document.results)
    blocks: dict[tuple[str, ...], list[str]] = {}
    for leaves in points:
        first, *rest = point_block(leaves)
        blocks.setdefault((leaves[0].pair, leaves[0].variant, *rest), []).append(first)
    for (_, _, *rest), (first, *others) in blocks.items():
        line(to, f"FAILED  {first}", "bold red")
        for other in others:
            line(to, f"        {other}", "bold red")
        for text in (*rest, ""):
            line(to, text)
    if more:
        line(to, f"{plural(more, 'more failing point')} not shown; --json FILE writes all of them", "bold red")
        line(to)
