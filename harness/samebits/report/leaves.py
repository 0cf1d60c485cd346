"""The leaves of a comparison of two functions as rows, and as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from samebits.schema.assumption import words_of
from samebits.schema.finding import Finding
from samebits.schema.result import requirement

LONGEST = 220
"""Characters of the evidence in a row; the whole text is in the result."""


class LeafRow(NamedTuple):
    """One leaf as words."""

    direction: str
    leaf: str
    verdict: str
    evidence: str
    ok: bool


def leaf_rows(leaves: Iterable[Finding], reference: str) -> list[LeafRow]:
    """A row per leaf; what is the reference's own on the mesh says so."""
    rows = []
    for leaf in leaves:
        name = leaf.place.leaf if leaf.place.variant != reference else f"{leaf.place.leaf} (reference on the mesh)"
        rows.append(LeafRow(leaf.place.direction, name, leaf.ruling.verdict, _evidence(leaf), leaf.ruling.ok))
    return rows


def text(title: str, rows: Sequence[LeafRow]) -> str:
    """A title, and one line per leaf."""
    cells_of = [(row.direction, row.leaf, row.verdict) for row in rows]
    widths = [max((len(cells[column]) for cells in cells_of), default=0) for column in range(3)]
    lines = [title]
    for row, words in zip(rows, cells_of, strict=True):
        cells = [word.ljust(width) for word, width in zip(words, widths, strict=True)]
        lines.append(f"  {cells[0]}  {cells[1]}  {cells[2]}  {cut(row.evidence)}".rstrip())
    return "\n".join(lines)


def _evidence(leaf: Finding) -> str:
    """What the verdict rests on, in words; where it fails, the requirement first."""
    words = [] if leaf.ruling.ok else [f"required {requirement(leaf.ruling.required, leaf.ruling.reason)}"]
    words += [str(line) for line in leaf.named.lines[:1]]
    if leaf.tool == "check":
        words += [leaf.ruling.evidence or _without_evidence(leaf)]
        # Of a proof that could not be made, the evidence may say it already.
        if leaf.proof.not_interpreted and leaf.proof.not_interpreted not in (leaf.ruling.evidence or ""):
            words += [f"not interpreted: {leaf.proof.not_interpreted}"]
    else:
        if leaf.proof.domain and leaf.ruling.verdict in ("proved", "rounding"):
            words += [f"in this domain: {leaf.proof.domain}"]
        if leaf.proof.family is None:
            words += [f"by {leaf.proof.method}" if leaf.proof.method else ""]
        elif leaf.proof.method is not None:
            words += [f"for all sizes: {leaf.proof.family.text}" if leaf.proof.sizes == "all" else "not for all sizes"]
        taken = words_of(leaf.proof.assumptions) if leaf.ruling.ok else ""
        words += [f"assumes {taken}" if taken else ""]
        words += [leaf.proof.refutation or "", leaf.ruling.reason or ""]
        words += [f"error probability 2^{leaf.proof.log2_error:.0f}"] if leaf.proof.log2_error is not None else []
    return "; ".join(word for word in words if word)


def _without_evidence(leaf: Finding) -> str:
    """What says as much of a leaf without evidence; of a verdict, the reason is why no better one is required."""
    if leaf.ruling.verdict != "bitwise":
        return leaf.ruling.reason or ""
    fails = "" if leaf.ruling.ok or not leaf.ruling.reason else f"; {leaf.ruling.reason}"
    return f"the same bits on every input tried{fails}"


def cut(words: str) -> str:
    """The evidence of a row, as long as a row may show it."""
    return words if len(words) <= LONGEST else f"{words[: LONGEST - 3]}..."
