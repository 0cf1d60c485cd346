"""The table of claims in a terminal and in Markdown."""

from __future__ import annotations

from rich.console import Console

from samebits.report.claims import EXPLAINED, ClaimsDocument, closing, compiler_line, exit_code, longest, notes
from samebits.report.claims import table as cells
from samebits.report.markdown import table as markdown_table
from samebits.report.markdown import words
from samebits.report.tables import WIDTH, line, show_table

_STATES = {0: "as declared", 1: "not as declared", 2: "incomplete", 3: "incomplete"}
_CUT = 72
"""Columns of what a document says, in a terminal; whole in Markdown and JSON."""


def show_claims(to: Console, document: ClaimsDocument) -> None:
    """The table; below it findings, what fails, and one sentence."""
    if not to.is_terminal:
        to.width = max(to.width, WIDTH)
    line(to, compiler_line(document), "dim")
    heads, rows = cells(document)
    for row in rows:
        row[1] = row[1] if len(row[1]) <= _CUT else row[1][: _CUT - 3] + "..."
    show_table(to, heads, rows)
    line(to)
    line(to, EXPLAINED, "dim")
    for one in document.results:
        for text in one.findings:
            line(to, f"{one.id} {one.subject}: finding: {text}", "yellow")
        if one.witness and one.exempt:
            line(to, f"{one.id} {one.subject}: witness: {one.witness}", "yellow")
        if not one.ok:
            for text in notes(one):
                line(to, f"{one.id} {one.subject}: {text}", "bold red")
    for problem in document.problems:
        line(to, f"problem: {problem.pair}: {problem.message}", "bold red")
    good = exit_code(document) == 0
    line(to, closing(document), "bold green" if good else "bold red")


def claims_markdown(document: ClaimsDocument) -> str:
    """The document as Markdown: the table, then what stands behind each row."""
    parts = [
        f"### samebits claims: {_STATES[exit_code(document)]}",
        words(closing(document)),
        words(compiler_line(document)),
        markdown_table(*cells(document)),
        words(EXPLAINED),
        words(longest(document)),
        *("problem: " + words(f"{one.pair}: {one.message}") for one in document.problems),
        "#### What stands behind each row",
    ]
    for one in document.results:
        parts.append(f"**{words(one.id)}, {words(one.subject)}: {one.holds}**")
        parts.append("\n".join(f"- {words(text)}" for text in notes(one)))
    return "\n\n".join(parts) + "\n"
