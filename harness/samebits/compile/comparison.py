"""Compares compiled programs: a variant with its reference, and a program with compiler options with one without.

If both sides compile to the same program, the verdict is `proved`: on that target, they give equal bits for every input
of these shapes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from samebits.hlo.counts import difference
from samebits.schema.case import Refusal
from samebits.schema.compile_statement import NUMBERS, Claim
from samebits.schema.program_facts import ClaimResult, CompiledSide, OptionEffect, ProgramIdentity, SideBySide, ratio

_REFUSED = "refused: {}"
"""The text of an expected compiler error among the claims."""

MOST = 6
"""How many changed operations a reason lists."""


def compare_sides(
    reference: CompiledSide,
    variant: CompiledSide,
    all_sides: Mapping[str, CompiledSide],
    claims: Sequence[Claim],
    *,
    other_outputs: str | None = None,
) -> SideBySide:
    """Compare a variant with its reference: whether the programs are the same, ratios of figures, and claims.

    Args:
        all_sides: every side of that case and direction, for claims that name another side.
        other_outputs: what the variant returns otherwise, in words, such as another tree; None for the same types.
    """
    same, ordered = variant.unordered == reference.unordered, variant.program == reference.program
    # Options can affect machine code below the HLO: with xla_cpu_enable_fast_math XLA:CPU divides differently.
    alike = variant.options == reference.options
    operations = difference(reference.operations, variant.operations)
    figures = {side: _figures(program) for side, program in all_sides.items()}
    judged = [
        _judged(claim, figures, variant.side, reference.side)
        for claim in claims
        # A claim that names a side which was not asked for has nothing to be held against.
        if claim.shows.side in (None, "reference", *all_sides)
        # What is said of every variant is not said of the reference; of it only what names it.
        and (variant.side != reference.side or claim.variant == reference.side)
        and claim.speaks_of(
            variant=variant.side, direction=variant.direction, target=variant.target, version=variant.compiler
        )
    ]
    return SideBySide(
        pair=variant.pair,
        variant=variant.side,
        reference=reference.side,
        case=variant.case,
        dtype=variant.dtype,
        mesh=variant.mesh,
        direction=variant.direction,
        target=variant.target,
        same_program=same,
        same_order=ordered,
        verdict="proved" if ordered and alike and other_outputs is None and variant.side != reference.side else None,
        reason="the reference itself"
        if variant.side == reference.side
        else f"the same program, but {other_outputs}"
        if ordered and other_outputs is not None
        else _reason(same, ordered, alike, operations),
        temp_ratio=ratio(variant.temp_bytes, reference.temp_bytes),
        peak_ratio=ratio(variant.peak_bytes, reference.peak_bytes),
        bytes_ratio=ratio(variant.bytes_accessed, reference.bytes_accessed),
        wire_ratio=ratio(variant.wire_bytes, reference.wire_bytes),
        operations=operations,
        expectations=tuple(judged),
    )


def expected_error(which: ProgramIdentity, reference: str, refusal: Refusal, words: str) -> SideBySide:
    """Return the comparison of a side whose options the compiler rejected, as the declaration expects."""
    matches = re.search(refusal.match, words) is not None
    judged = ClaimResult(
        shows=_REFUSED.format(refusal.match), source="declared", finding=None, holds=matches, ok=matches, got=words
    )
    return SideBySide(
        pair=which.pair,
        variant=which.side,
        reference=reference,
        case=which.case,
        dtype=which.dtype,
        mesh=which.mesh,
        direction=which.direction,
        target=which.target,
        same_program=False,
        same_order=False,
        verdict="refused" if matches else None,
        reason=f"refused by the compiler: {words}",
        temp_ratio=None,
        peak_ratio=None,
        bytes_ratio=None,
        wire_ratio=None,
        operations={},
        expectations=(judged,),
    )


def missing_error(refusal: Refusal) -> ClaimResult:
    """Return the failed claim of an expected compiler error, for a compiler that accepted the options."""
    shows = _REFUSED.format(refusal.match)
    return ClaimResult(shows=shows, source="declared", finding=None, holds=False, ok=False, got="it compiled")


def option_effect(without: CompiledSide, with_options: CompiledSide) -> OptionEffect:
    """Return the effect of compiler options on a program: the figures that changed."""
    first, second = _figures(without), _figures(with_options)
    changed = [name for name in first if first[name] != second[name] and name != "program"]
    return OptionEffect(
        pair=with_options.pair,
        side=with_options.side,
        case=with_options.case,
        direction=with_options.direction,
        target=with_options.target,
        options=with_options.options,
        changed=without.program != with_options.program,
        before={name: first[name] for name in changed},
        after={name: second[name] for name in changed},
        operations=difference(without.operations, with_options.operations),
    )


def _figures(program: CompiledSide) -> dict[str, Any]:
    return {name: getattr(program, name) for name in (*NUMBERS, "collectives", "program")}


def _reason(same: bool, ordered: bool, alike: bool, operations: Mapping[str, Sequence[int]]) -> str:
    if ordered:
        return "same program" if alike else "same program with other options, which may move bits in machine code"
    if same:
        return "the same program but for the order of operands of commutative operations, which can move the last bit"
    listed = ", ".join(f"{name} {counts[0]} -> {counts[1]}" for name, counts in list(operations.items())[:MOST])
    more = len(operations) - MOST
    if not listed:
        return "another program: the same operations, differently connected, shaped or configured"
    return f"another program: {listed}" + (f", {more} more" if more > 0 else "")


def _judged(claim: Claim, figures: Mapping[str, Mapping[str, Any]], variant: str, reference: str) -> ClaimResult:
    holds, got = claim.shows.judge(figures, variant, reference)
    ok = holds is True if claim.finding is None else holds is False
    return ClaimResult(shows=str(claim.shows), source=claim.source, finding=claim.finding, holds=holds, ok=ok, got=got)
