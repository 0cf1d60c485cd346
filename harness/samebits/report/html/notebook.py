"""Comparisons as a notebook shows them: the page's templates without its scripts, and styles that stay inside."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from samebits.report.html.render import render, static
from samebits.report.leaves import LeafRow, cut

Table = tuple[Sequence[str], Sequence[Sequence[str]]]
"""Heads, and rows of cells."""


def notebook_table(
    title: str,
    rows: Sequence[LeafRow],
    notes: Iterable[str] = (),
    details: Iterable[str] = (),
    tables: Iterable[Table] = (),
) -> str:
    """A fragment of HTML for a notebook, in its own colours, light or dark.

    Args:
        title: of the table.
        rows: one for each leaf.
        notes: lines below the table.
        details: texts that unfold, such as witnesses and replay lines of what fails.
        tables: of figures, each heads and rows, below the leaves.
    """
    from markupsafe import Markup

    shown = [(row.direction, row.leaf, row.verdict, cut(row.evidence), row.ok) for row in rows]
    styles = Markup(static("notebook.css"))
    return str(
        render(
            "notebook.html.j2",
            title=title,
            rows=shown,
            notes=notes,
            details=[*details],
            tables=[*tables],
            styles=styles,
        )
    )
