"""The saving of a variant, such as less temporary memory, by the compilers' figures beside the reference's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from samebits.schema.document_claim import Documented
from samebits.schema.finding import Finding
from samebits.schema.program_facts import CompiledSide, SideBySide

Saved = Literal["saves", "saves in part", "no change", "costs", "not told"]

NOISE = 0.02
"""A figure within 2 % of the reference's counts as unchanged: padding and scratch memory move as much (seen: 0.4 %)."""


@dataclass(frozen=True, slots=True)
class ClaimEvidence:
    """The results of the commands that were run for one pair.

    Args:
        results: of `check`.
        programs, comparisons: of `compile`.
        tests: whether each test passed, by name; None if the tests did not run.
    """

    results: Sequence[Finding] = ()
    programs: Sequence[CompiledSide] = ()
    comparisons: Sequence[SideBySide] = ()
    tests: Mapping[str, bool] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Saving:
    """One figure of a variant beside the reference's.

    Args:
        target, case, direction, variant: what was compiled.
        reference_value, value: both figures, per device; None if the compiler reports none.
        ratio: value over reference value; 1 if both are 0, None if unknown.
        same_program: whether variant and reference compile to the same program.
    """

    target: str
    case: str
    direction: str
    variant: str
    reference_value: float | None
    value: float | None
    ratio: float | None
    same_program: bool


def savings_of(claim: Documented, variants: Sequence[str], evidence: ClaimEvidence) -> tuple[Saving, ...]:
    """Return the claimed figure of every variant beside the reference's, in the order of the run."""
    by_place = {
        (program.case, program.target, program.direction, program.side, bool(program.options)): program
        for program in evidence.programs
    }
    savings = []
    for comparison in evidence.comparisons:
        if (
            comparison.variant not in variants
            or comparison.variant == comparison.reference
            or comparison.verdict == "refused"
        ):
            continue
        if claim.real and comparison.case not in claim.real:
            continue
        if claim.directions and comparison.direction not in claim.directions:
            continue
        place = (comparison.case, comparison.target, comparison.direction)
        mine = by_place.get((*place, comparison.variant, True)) or by_place.get((*place, comparison.variant, False))
        other = by_place.get((*place, comparison.reference, True)) or by_place.get(
            (*place, comparison.reference, False)
        )
        if mine is None or other is None:
            continue
        value, reference = getattr(mine, str(claim.saves)), getattr(other, str(claim.saves))
        savings.append(
            Saving(
                target=comparison.target,
                case=comparison.case,
                direction=comparison.direction,
                variant=comparison.variant,
                reference_value=reference,
                value=value,
                ratio=ratio_of(value, reference),
                same_program=comparison.same_order,
            )
        )
    return tuple(savings)


def ratio_of(value: float | None, reference: float | None) -> float | None:
    """Divide a value by the reference's, to four digits; 1 if both are 0, infinity if only the reference is."""
    if value is None or reference is None:
        return None
    if reference == 0:
        return 1.0 if value == 0 else float("inf")
    return float(f"{value / reference:.4g}")


def saved_of(savings: Sequence[Saving]) -> Saved:
    """Return the summary of all figures; an unknown figure does not count as a saving."""
    ratios = [saving.ratio for saving in savings if saving.ratio is not None]
    if not ratios:
        return "not told"
    if all(ratio < 1 - NOISE for ratio in ratios) and len(ratios) == len(savings):
        return "saves"
    if any(ratio < 1 - NOISE for ratio in ratios):
        return "saves in part"
    return "costs" if any(ratio > 1 + NOISE for ratio in ratios) else "no change"
