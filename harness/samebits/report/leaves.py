"""The leaves of a comparison of two functions as rows, and as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from samebits.schema.assumption import words_of
from samebits.schema.proof import ProofResult
from samebits.schema.result import Result, requirement

LONGEST = 220
"""Characters of the evidence in a row; the whole text is in the result."""


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
        lines.append(f"  {cells[0]}  {cells[1]}  {cells[2]}  {cut(row.evidence)}".rstrip())
    return "\n".join(lines)


def _evidence(leaf: Result | ProofResult) -> str:
    """What the verdict rests on, in words; where it fails, the requirement first."""
    words = [] if leaf.ok else [f"required {requirement(leaf.required, leaf.reason)}"]
    words += [str(line) for line in leaf.lines[:1]]
    if isinstance(leaf, Result):
        words += [leaf.evidence or _without_evidence(leaf)]
        # Of a proof that could not be made, the evidence may say it already.
        if leaf.not_interpreted and leaf.not_interpreted not in (leaf.evidence or ""):
            words += [f"not interpreted: {leaf.not_interpreted}"]
    else:
        if leaf.domain and leaf.verdict in ("proved", "rounding"):
            words += [f"in this domain: {leaf.domain}"]
        if leaf.family is None:
            words += [f"by {leaf.method}" if leaf.method else ""]
        elif leaf.method is not None:
            words += [f"for all sizes: {leaf.family.text}" if leaf.sizes == "all" else "not for all sizes"]
        taken = words_of(leaf.assumptions) if leaf.ok else ""
        words += [f"assumes {taken}" if taken else ""]
        words += [leaf.witness or "", leaf.reason or ""]
        words += [f"error probability 2^{leaf.log2_error:.0f}"] if leaf.log2_error is not None else []
    return "; ".join(word for word in words if word)


def _without_evidence(leaf: Result) -> str:
    """What says as much of a leaf without evidence; of a verdict, the reason is why no better one is required."""
    if leaf.verdict != "bitwise":
        return leaf.reason or ""
    fails = "" if leaf.ok or not leaf.reason else f"; {leaf.reason}"
    return f"the same bits on every input tried{fails}"


def cut(words: str) -> str:
    """The evidence of a row, as long as a row may show it."""
    return words if len(words) <= LONGEST else f"{words[: LONGEST - 3]}..."
