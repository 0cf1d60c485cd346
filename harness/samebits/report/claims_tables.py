"""The table of claims in a terminal and in Markdown."""

from __future__ import annotations

from rich.console import Console

from samebits.report.claims import (
    EXPLAINED,
    ClaimsDocument,
    claims_table,
    closing,
    compiler_line,
    exit_code,
    longest,
    notes,
)
from samebits.report.markdown import escaped, markdown_table
from samebits.report.markdown_fit import joined
from samebits.report.tables import WIDTH, line, show_table

_STATES = {0: "as declared", 1: "not as declared", 2: "incomplete", 3: "incomplete"}
_CUT = 72
"""Columns of what a document says, in a terminal; whole in Markdown and JSON."""


def show_claims(to: Console, document: ClaimsDocument) -> None:
    """The table; below it findings, what fails, and one sentence."""
    if not to.is_terminal:
        to.width = max(to.width, WIDTH)
    line(to, compiler_line(document), "dim")
    heads, lines = claims_table(document)
    for cells in lines:
        cells[1] = cells[1] if len(cells[1]) <= _CUT else cells[1][: _CUT - 3] + "..."
    show_table(to, heads, lines)
    line(to)
    line(to, EXPLAINED, "dim")
    for row in document.results:
        name = f"{row.id} {row.subject}"
        for text in row.findings:
            line(to, f"{name}: finding: {text}", "yellow")
        if row.witness and row.exempt:
            line(to, f"{name}: witness: {row.witness}", "yellow")
        if not row.ok:
            for text in notes(row):
                line(to, f"{name}: {text}", "bold red")
    for problem in document.problems:
        line(to, f"problem: {problem.pair}: {problem.message}", "bold red")
    good = exit_code(document) == 0
    line(to, closing(document), "bold green" if good else "bold red")


def claims_markdown(document: ClaimsDocument, *, whole: bool = False) -> str:
    """The document as Markdown: the table, then what stands behind each row.

    Args:
        document: of the claims.
        whole: whether everything is written, however long it is; else of the rows behind the table those that fail.
    """
    parts = [
        f"### samebits claims: {_STATES[exit_code(document)]}",
        escaped(closing(document)),
        escaped(compiler_line(document)),
        markdown_table(*claims_table(document)),
        escaped(EXPLAINED),
        escaped(longest(document)),
        *("problem: " + escaped(f"{problem.pair}: {problem.message}") for problem in document.problems),
        "#### What stands behind each row",
    ]
    for row in document.results if whole else [row for row in document.results if not row.ok]:
        parts.append(f"**{escaped(row.id)}, {escaped(row.subject)}: {row.holds}**")
        parts.append("\n".join(f"- {escaped(text)}" for text in notes(row)))
    return joined(parts, whole=whole)
