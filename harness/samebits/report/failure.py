"""Failing results as lines of text: verdict, requirement, evidence, witness, and the command that shows it again."""

from __future__ import annotations

from collections.abc import Sequence

from samebits.schema.contract import COMPUTES
from samebits.schema.difference import extent, ulps_in_words
from samebits.schema.result import Result, requirement


def place(result: Result) -> str:
    """Where a result lies, on one line, without its leaf."""
    return (
        f"{result.pair}/{result.variant}, case {result.case}, {result.dtype}, mesh {result.mesh} ({result.mode}), "
        f"{result.direction}"
    )


def point_block(leaves: Sequence[Result]) -> list[str]:
    """The lines of all failing leaves of one point; the point and its replay are named once."""
    lines = [place(leaves[0])]
    for leaf in leaves:
        lines += _leaf(leaf)
    if leaves[0].replay:
        lines.append(f"  replay    {leaves[0].replay}")
    return lines


def _leaf(result: Result) -> list[str]:
    lines = [] if result.leaf == "*" else [f"  leaf      {result.leaf}"]
    lines.append(f"  verdict   {result.verdict}, required {requirement(result.required, result.reason)}")
    if result.evidence:
        lines.append(f"  evidence  {result.evidence}")
    if result.not_interpreted:
        lines.append(f"  executed  not interpreted: {result.not_interpreted}")
    # Why a default contract accepts rounding does not explain a failure.
    if result.reason and (result.reason != COMPUTES.reason or not result.evidence):
        lines.append(f"  reason    {result.reason}")
    lines += [f"  {'line' if not number else 'or':10}{line}" for number, line in enumerate(result.lines)]
    if result.no_lines:
        lines.append(f"  line      none named: {result.no_lines}")
    if result.witness is not None:
        w = result.witness
        index = ", ".join(map(str, w["index"]))
        where = f"{w['leaf']}[{index}]" if index else str(w["leaf"])
        lines.append(f"  witness   {where}: reference={w['reference']} ({w['reference_hex']})")
        lines.append(f"            {' ' * len(where)}  optimized={w['optimized']} ({w['optimized_hex']})")
        if w.get("input"):
            lines.append(f"  input     {w['input']}")
    if result.magnitudes:
        lines.append(f"  {'inputs up to':>20} {'reference':>12} {'optimized':>12}  largest errors of elements")
        lines += [
            f"  {row.size:>20.3g} {_error(row.reference):>12} {_error(row.optimized):>12}" for row in result.magnitudes
        ]
    if result.mismatches and result.elements:  # of outputs of other structure no elements were compared
        lines.append(f"  extent    {_extent(result)}")
    return lines


def _error(size: float | None) -> str:
    return "not finite" if size is None else f"{size:.1e}"


def _extent(result: Result) -> str:
    """How many elements differ in which ways, and the class of the witness where there are several."""
    if not result.differences:  # a document written before they were published
        far = "" if result.max_ulp is None else f", up to {ulps_in_words(result.max_ulp)} apart"
        return f"{result.mismatches} of {result.elements} elements differ{far}; class: {result.kind}"
    text = extent(result.differences, result.elements)
    kind = None if result.witness is None or len(result.differences) == 1 else result.witness.get("kind")
    return text if kind is None else f"{text}; witness: {kind}"


def shown_example(result: Result) -> list[str]:
    """One failing leaf in at most three lines: where it lies, the two values, how many elements differ."""
    leaf = "" if result.leaf == "*" else f", {result.leaf}"
    mode = f" ({result.mode})" if result.mode else ""
    lines = [f"case {result.case}, {result.dtype}, mesh {result.mesh}{mode}, {result.direction}{leaf}"]
    if result.witness is not None:
        w = result.witness
        index = f"[{', '.join(map(str, w['index']))}]" if w["index"] else ""
        reference, optimized = (f"{w[side]} ({w[f'{side}_hex']})" for side in ("reference", "optimized"))
        lines.append(f"{w['leaf']}{index}: reference={reference}, optimized={optimized}")
    if result.elements == 0 and result.evidence:  # nothing was compared: the outputs are not of one structure
        lines.append(result.evidence)
    elif result.mismatches and result.elements:
        lines.append(_extent(result))
    return lines
