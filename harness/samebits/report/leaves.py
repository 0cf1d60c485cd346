"""The leaves of a comparison of two functions as text for a terminal, and as HTML for a notebook."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from samebits.schema.proof import ProofResult
from samebits.schema.result import Result

COLUMNS = ("direction", "leaf", "verdict", "evidence")

LONGEST = 220
"""Characters of the evidence in a row; the whole text is in the result."""

_COLOURS = {"proved": "#1a7f37", "bitwise": "#1a7f37", "rounding": "#9a6700"}
_BAD = "#cf222e"


class LeafRow(NamedTuple):
    """One leaf as words."""

    direction: str
    leaf: str
    verdict: str
    evidence: str
    ok: bool


def leaf_rows(leaves: Iterable[Result | ProofResult], reference: str) -> list[LeafRow]:
    """A row per leaf; what is the reference's own on the mesh says so."""
    rows = []
    for leaf in leaves:
        name = leaf.leaf if leaf.variant != reference else f"{leaf.leaf} (reference on the mesh)"
        rows.append(LeafRow(leaf.direction, name, leaf.verdict, _evidence(leaf), leaf.ok))
    return rows


def text(title: str, rows: Sequence[LeafRow]) -> str:
    """A title, and one line per leaf."""
    cells_of = [(row.direction, row.leaf, row.verdict) for row in rows]
    widths = [max((len(cells[column]) for cells in cells_of), default=0) for column in range(3)]
    lines = [title]
    for row, words in zip(rows, cells_of, strict=True):
        cells = [word.ljust(width) for word, width in zip(words, widths, strict=True)]
        lines.append(f"  {cells[0]}  {cells[1]}  {cells[2]}  {_cut(row.evidence)}".rstrip())
    return "\n".join(lines)


def html_table(title: str, rows: Sequence[LeafRow]) -> str:
    """The same as HTML, with verdicts in colour."""
    head = "".join(f"<th style='text-align:left'>{column}</th>" for column in COLUMNS)
    body = "".join(
        "<tr>"
        + "".join(
            f"<td style='text-align:left{_style(row) if column == 'verdict' else ''}'>{html.escape(_cut(cell))}</td>"
            for column, cell in zip(COLUMNS, row[:4], strict=True)
        )
        + "</tr>"
        for row in rows
    )
    return f"<div><b>{html.escape(title)}</b><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"


def _style(row: LeafRow) -> str:
    return f";font-weight:bold;color:{_COLOURS.get(row.verdict, _BAD) if row.ok else _BAD}"


def _evidence(leaf: Result | ProofResult) -> str:
    """What the verdict rests on, in words; where it fails, the requirement first."""
    words = [] if leaf.ok else [f"required {leaf.required}"]
    words += [str(line) for line in leaf.lines[:1]]
    if isinstance(leaf, Result):
        words += [leaf.evidence or leaf.reason or ""]
    else:
        words += [f"by {leaf.method}" if leaf.method else "", leaf.witness or "", leaf.reason or ""]
        words += [f"error probability 2^{leaf.log2_error:.0f}"] if leaf.log2_error is not None else []
    return "; ".join(word for word in words if word)


def _cut(words: str) -> str:
    return words if len(words) <= LONGEST else f"{words[: LONGEST - 3]}..."
