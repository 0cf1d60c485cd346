"""Findings as lines of text: failures with witness and replay, and the leaves of two functions as rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from samebits.schema.assumption import words_of
from samebits.schema.contract import COMPUTES
from samebits.schema.difference import extent, ulps_in_words
from samebits.schema.finding import Finding
from samebits.schema.result import requirement


def place(result: Finding) -> str:
    """Return where a result lies, on one line, without its leaf."""
    return ", ".join(filter(None, (result.place.side(), result.place.where(), result.place.direction)))


def point_block(leaves: Sequence[Finding]) -> list[str]:
    """Return the lines of all failing leaves of one point; the point and its replay are named once."""
    lines = [place(leaves[0])]
    for leaf in leaves:
        lines += _leaf(leaf)
    if leaves[0].replay:
        lines.append(f"  replay    {leaves[0].replay}")
    return lines


def _leaf(result: Finding) -> list[str]:
    ruling, seen = result.ruling, result.comparison
    name = "claim" if result.tool == "compile" else "leaf"
    lines = [] if result.place.leaf in ("", "*") else [f"  {name:<9} {result.place.leaf}"]
    lines.append(f"  verdict   {ruling.verdict}, required {requirement(ruling.required, ruling.reason)}")
    if result.ruling.evidence and result.ruling.evidence != result.proof.refutation:
        lines.append(f"  evidence  {result.ruling.evidence}")
    if result.proof.not_interpreted:
        lines.append(f"  executed  not interpreted: {result.proof.not_interpreted}")
    # Why a default contract accepts rounding does not explain a failure.
    if result.ruling.reason and (result.ruling.reason != COMPUTES.reason or not result.ruling.evidence):
        lines.append(f"  reason    {result.ruling.reason}")
    lines += [f"  {'line' if not number else 'or':10}{line}" for number, line in enumerate(result.named.lines)]
    if result.named.why:
        lines.append(f"  line      none named: {result.named.why}")
    if result.proof.refutation is not None:
        lines.append(f"  witness   {result.proof.refutation}")
    if seen.witness is not None:
        w = seen.witness
        variant = result.place.variant
        width = max(len("reference"), len(variant))
        lines.append(f"  witness   {w.at}: {'reference':>{width}}={w.reference} ({w.reference_hex})")
        lines.append(f"            {' ' * len(w.at)}  {variant:>{width}}={w.optimized} ({w.optimized_hex})")
        if w.input:
            lines.append(f"  input     {w.input}")
    if result.accuracy.magnitudes:
        lines.append(f"  {'inputs up to':>20} {'reference':>12} {result.place.variant:>12}  largest errors of elements")
        lines += [
            f"  {row.size:>20.3g} {_error(row.reference):>12} {_error(row.optimized):>12}"
            for row in result.accuracy.magnitudes
        ]
    if seen.mismatches and seen.elements:  # of outputs of other structure no elements were compared
        lines.append(f"  extent    {_extent(result)}")
    return lines


def _error(size: float | None) -> str:
    return "not finite" if size is None else f"{size:.1e}"


def _extent(result: Finding) -> str:
    """Return how many elements differ in which ways, and the class of the witness where there are several."""
    seen = result.comparison
    if not seen.differences:  # a document written before they were published
        far = "" if seen.max_ulp is None else f", up to {ulps_in_words(seen.max_ulp)} apart"
        return f"{seen.mismatches} of {seen.elements} elements differ{far}; class: {seen.kind}"
    text = extent(seen.differences, seen.elements)
    kind = "" if seen.witness is None or len(seen.differences) == 1 else seen.witness.kind
    return f"{text}; witness: {kind}" if kind else text


def shown_example(result: Finding) -> list[str]:
    """Return one failing result in at most three lines: where it lies, the two values, how many elements differ."""
    at, seen = result.place, result.comparison
    head = ", ".join(filter(None, (at.item, at.where(), at.direction, "" if at.leaf == "*" else at.leaf)))
    if result.tool != "check":
        what = result.proof.refutation if result.tool == "prove" else result.ruling.evidence
        return [f"{head}: {what}" if what else head]
    lines = [head]
    if seen.witness is not None:
        lines.append(seen.witness.said(result.place.variant))
    if seen.elements == 0 and result.ruling.evidence:  # nothing was compared: the outputs are not of one structure
        lines.append(result.ruling.evidence)
    elif seen.mismatches and seen.elements:
        lines.append(_extent(result))
    return lines


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
    """Return a row per leaf; what is the reference's own on the mesh says so."""
    rows = []
    for leaf in leaves:
        name = leaf.place.leaf if leaf.place.variant != reference else f"{leaf.place.leaf} (reference on the mesh)"
        rows.append(LeafRow(leaf.place.direction, name, leaf.ruling.verdict, _evidence(leaf), leaf.ruling.ok))
    return rows


def text(title: str, rows: Sequence[LeafRow]) -> str:
    """Return a title, and one line per leaf."""
    cells_of = [(row.direction, row.leaf, row.verdict) for row in rows]
    widths = [max((len(cells[column]) for cells in cells_of), default=0) for column in range(3)]
    lines = [title]
    for row, words in zip(rows, cells_of, strict=True):
        cells = [word.ljust(width) for word, width in zip(words, widths, strict=True)]
        lines.append(f"  {cells[0]}  {cells[1]}  {cells[2]}  {cut(row.evidence)}".rstrip())
    return "\n".join(lines)


def _evidence(leaf: Finding) -> str:
    """Return what the verdict rests on, in words; where it fails, the requirement first."""
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
    """Say as much of a leaf without evidence; of a verdict, the reason is why no better one is required."""
    if leaf.ruling.verdict != "bitwise":
        return leaf.ruling.reason or ""
    fails = "" if leaf.ruling.ok or not leaf.ruling.reason else f"; {leaf.ruling.reason}"
    return f"the same bits on every input tried{fails}"


def cut(words: str) -> str:
    """Return the evidence of a row, as long as a row may show it."""
    return words if len(words) <= LONGEST else f"{words[: LONGEST - 3]}..."
