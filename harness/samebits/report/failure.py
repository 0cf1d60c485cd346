"""Failing results as lines of text: verdict, requirement, evidence, witness, and the command that shows it again."""

from __future__ import annotations

from collections.abc import Sequence

from samebits.schema.contract import COMPUTES
from samebits.schema.difference import extent, ulps_in_words
from samebits.schema.finding import Finding
from samebits.schema.result import requirement


def place(result: Finding) -> str:
    """Where a result lies, on one line, without its leaf."""
    return ", ".join(filter(None, (result.place.side(), result.place.where(), result.place.direction)))


def point_block(leaves: Sequence[Finding]) -> list[str]:
    """The lines of all failing leaves of one point; the point and its replay are named once."""
    lines = [place(leaves[0])]
    for leaf in leaves:
        lines += _leaf(leaf)
    if leaves[0].replay:
        lines.append(f"  replay    {leaves[0].replay}")
    return lines


def _leaf(result: Finding) -> list[str]:
    ruling, seen = result.ruling, result.comparison
    name = "claim" if result.tool == "compile" else "leaf"
    lines = [] if result.place.leaf == "*" else [f"  {name:<9} {result.place.leaf}"]
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
    """How many elements differ in which ways, and the class of the witness where there are several."""
    seen = result.comparison
    if not seen.differences:  # a document written before they were published
        far = "" if seen.max_ulp is None else f", up to {ulps_in_words(seen.max_ulp)} apart"
        return f"{seen.mismatches} of {seen.elements} elements differ{far}; class: {seen.kind}"
    text = extent(seen.differences, seen.elements)
    kind = "" if seen.witness is None or len(seen.differences) == 1 else seen.witness.kind
    return f"{text}; witness: {kind}" if kind else text


def shown_example(result: Finding) -> list[str]:
    """One failing leaf in at most three lines: where it lies, the two values, how many elements differ."""
    leaf = "" if result.place.leaf == "*" else f", {result.place.leaf}"
    lines, seen = [f"{result.place.where()}, {result.place.direction}{leaf}"], result.comparison
    if seen.witness is not None:
        lines.append(seen.witness.said(result.place.variant))
    if seen.elements == 0 and result.ruling.evidence:  # nothing was compared: the outputs are not of one structure
        lines.append(result.ruling.evidence)
    elif seen.mismatches and seen.elements:
        lines.append(_extent(result))
    return lines
