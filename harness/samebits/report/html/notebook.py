"""Comparisons as a notebook shows them: the page's templates without its scripts, and styles that stay inside."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

from samebits.numerics.bits import Comparison
from samebits.report.compile import ProgramBlock
from samebits.report.failure import LeafRow, cut, leaf_rows, place, point_block
from samebits.report.html.sections import SIGNS, render, static
from samebits.report.page import Badge, Cell, Code, Fold, Lines, Table
from samebits.report.prove import paragraphs
from samebits.schema.difference import extent
from samebits.schema.finding import Finding
from samebits.schema.program_facts import CompiledSide, SideBySide
from samebits.schema.shown import Shown


def notebook_table(
    title: str,
    rows: Sequence[LeafRow],
    notes: Iterable[str] = (),
    details: Iterable[str] = (),
    tables: Iterable[tuple[Sequence[str], Sequence[Sequence[str]]]] = (),
) -> str:
    """Return a fragment of HTML for a notebook, in its own colours, light or dark."""
    from markupsafe import Markup

    codes = [Code(lines=text.splitlines()) for text in details]
    blocks = [
        Table(heads=("direction", "leaf", "verdict", "evidence"), rows=[_cells(row) for row in rows], caption="Leaves"),
        *(Table(heads=heads, rows=lines, caption=heads[0]) for heads, lines in tables),
        Lines(lines=[f"note: {note}" for note in notes], listed=False),
        *([Fold(title="What fails, with witness and replay", blocks=codes)] if codes else []),
    ]
    styles = Markup(static("notebook.css"))
    return str(render("notebook.html.j2", title=title, blocks=blocks, styles=styles))


def _cells(row: LeafRow) -> list[Cell]:
    badge = Badge(text=row.verdict, sign=SIGNS.get(row.verdict, "≠"), tone="" if row.ok else "bad")
    return [row.direction, row.leaf, badge, cut(row.evidence)]


@functools.singledispatch
def record_html(record: Shown) -> str:
    """Return a record as a fragment of HTML; of a kind without a view of its own, its text."""
    return notebook_table(type(record).__name__, [], [repr(record)])


@record_html.register
def _(record: Finding) -> str:
    title, rows = place(record), leaf_rows([record], "")
    if record.tool == "prove":
        return notebook_table(title, rows, tables=[(("proof", ""), list(paragraphs([record])))])
    details = [] if record.ruling.ok else ["\n".join(point_block([record]))]
    return notebook_table(title, rows, details=details)


@record_html.register
def _(record: Comparison) -> str:
    if record.equal:
        evidence = f"all {record.elements} elements have the same bits"
    else:
        evidence = record.detail or extent(record.differences, record.elements)
    verdict = "bitwise" if record.equal else "different"
    row, seen = LeafRow("bits", record.path, verdict, evidence, record.equal), record.witness
    if seen is None:
        return notebook_table(record.path, [row])
    element = f"{seen.leaf}[{', '.join(map(str, seen.index))}]"
    values = [("reference", seen.reference, seen.reference_hex), ("variant", seen.optimized, seen.optimized_hex)]
    return notebook_table(record.path, [row], tables=[(("side", element, "bits"), values)])


@record_html.register
def _(record: CompiledSide) -> str:
    block = ProgramBlock((record,), (), ())
    return notebook_table(block.title, [], [f"compiled again by: {record.replay}"], tables=[block.table()])


@record_html.register
def _(record: SideBySide) -> str:
    title = f"{record.pair}, {record.case} on {record.target}: {record.variant} beside {record.reference}"
    verdict, same = record.verdict or "other program", record.verdict is not None
    ratios = {
        "temporary memory": record.temp_ratio,
        "peak memory": record.peak_ratio,
        "memory traffic": record.bytes_ratio,
        "communication": record.wire_ratio,
    }
    figures = [(name, f"{ratio}x") for name, ratio in ratios.items() if ratio is not None]
    figures += [(name, f"{before} → {after}") for name, (before, after) in record.operations.items()]
    row = LeafRow(record.direction, record.variant, verdict, record.reason, same)
    tables = [(("figure", "beside the reference's"), figures)] if figures else []
    return notebook_table(title, [row], tables=tables)
