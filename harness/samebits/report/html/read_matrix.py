"""What each output of a function reads, drawn: rows are outputs, columns inputs; what must not be read is red."""

from __future__ import annotations

import html
import re

from samebits.schema.picture import MAY, MUST_NOT, ReadMatrix

COLOURS = {MAY: "#1565c0", MUST_NOT: "#c62828"}

STYLE = (
    ".reads-matrix{overflow:visible;margin-bottom:2em}.reads-matrix g{cursor:pointer;outline:none}"
    ".reads-matrix text{display:none;font:13px sans-serif;fill:currentColor}.reads-matrix g:focus text{display:block}"
    ".reads-matrix g:focus rect{fill-opacity:.6}"
)
"""A row's cells that were clicked on say below the matrix by which equation they are read."""


def matrix_svg(matrix: ReadMatrix, label: str) -> str:
    """Return a matrix as SVG; a click on cells says what they are, and the equation by which it gets in."""
    rows = [[(kind, int(count)) for kind, count in re.findall(r"(\D)(\d+)", row)] for row in matrix.cells.splitlines()]
    columns = sum(count for _, count in rows[0])
    size = max(2, 256 // max(len(rows), columns))
    width, height = columns * size, len(rows) * size
    groups = []
    for row, runs in enumerate(rows):
        first = 0
        for kind, count in runs:
            if kind in COLOURS:
                words = html.escape(_words(matrix, row, first, count, kind))
                groups.append(
                    f'<g tabindex="0"><title>{words}</title><rect x="{first * size}" y="{row * size}" '
                    f'width="{count * size}" height="{size}" fill="{COLOURS[kind]}"/>'
                    f'<text y="{height + 16}">{words}</text></g>'
                )
            first += count
    frame = f'<rect width="{width}" height="{height}" fill="none" stroke="#9e9e9e"/>'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="reads-matrix" width="{width}" height="{height}" role="img" '
        f'aria-label="{html.escape(label)}"><style>{STYLE}</style>{frame}{"".join(groups)}</svg>'
    )


def _words(matrix: ReadMatrix, row: int, first: int, count: int, kind: str) -> str:
    columns = f"input group {first}" if count == 1 else f"input groups {first} to {first + count - 1}"
    if kind == MAY:
        return f"output group {row} reads {columns}"
    by = f", by {matrix.place}" if matrix.place else ""
    return f"output group {row} reads {columns}, which it must not{by}"


def matrix_markup(matrix: ReadMatrix, label: str) -> str:
    """Return the same as the templates of a page take it."""
    from markupsafe import Markup  # which only pages need

    return Markup(matrix_svg(matrix, label))
