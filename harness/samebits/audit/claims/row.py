"""One claim of a document beside what was found: verdicts, savings, conditions, findings. Pure: reads records only."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from samebits.host.subprocesses import ProcessResult
from samebits.schema.document_claim import Documented
from samebits.schema.program_facts import CompiledSide, SideBySide
from samebits.schema.result import VERDICTS, Result

Values = Literal["same bits", "same mathematics", "not always the same", "not the same", "not asked", "not told"]
Saved = Literal["saves", "saves in part", "no change", "costs", "not told"]
Holds = Literal["holds", "holds but for rounding", "holds in part", "does not hold", "not told"]

NOISE = 0.02
"""A figure within two hundredths of the reference's has not changed: padding and scratch move as much (seen: 0.4%)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Saving:
    """One figure of a variant beside the reference's.

    Args:
        target, case, direction, variant: what was compiled.
        reference_value, value: the figure of both, of one device; None where the compiler gives none.
        ratio: value over the reference's; 1 where both are 0, None where it cannot be told.
        same_program: the variant became the reference's program.
    """

    target: str
    case: str
    direction: str
    variant: str
    reference_value: float | None
    value: float | None
    ratio: float | None
    same_program: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class ClaimRow:
    """A claim, and what became of it.

    Args:
        id, document, says: as declared.
        subject: the pair, or the model.
        variants: the sides that stand for the change.
        values: what the verdicts come to.
        verdicts: how many results have each verdict.
        exempt, skipped, failed: known differences, results that did not run, results against their contract.
        figure: what is said to be saved; None where nothing is.
        saved: what the compilers say of it, over all of `savings`; None where nothing is said to be saved.
        savings: the figures.
        conditions: for which inputs, and where a side refuses.
        reasons: why less than the same bits is accepted, where it is, with the measured numbers.
        findings: what is recorded against the claim, with its numbers.
        witness: the first difference, in words; None where none was seen.
        shown_by: the tests that show the declared finding, and whether they passed.
        said: the line of a command that stands for the claim, or how it ended instead.
        commands: what to type to see it again.
        holds: the claim as a whole.
        ok: nothing is otherwise than declared: contracts, claims about programs, tests and the command's end.
    """

    id: str
    document: str
    says: str
    subject: str
    variants: tuple[str, ...]
    values: Values
    verdicts: Mapping[str, int]
    exempt: int
    skipped: int
    failed: int
    figure: str | None
    saved: Saved | None
    savings: tuple[Saving, ...]
    conditions: tuple[str, ...]
    reasons: tuple[str, ...]
    findings: tuple[str, ...]
    witness: str | None
    shown_by: Mapping[str, bool]
    said: str | None
    commands: tuple[str, ...]
    holds: Holds
    ok: bool


@dataclass(frozen=True, slots=True)
class ClaimEvidence:
    """What the commands gave for one pair.

    Args:
        results: of `check`.
        programs, comparisons: of `compile`.
        tests: by name, whether a test passed.
    """

    results: Sequence[Result] = ()
    programs: Sequence[CompiledSide] = ()
    comparisons: Sequence[SideBySide] = ()
    tests: Mapping[str, bool] | None = None


def claim_row(
    claim: Documented, pair: str, variants: Sequence[str], evidence: ClaimEvidence, commands: Sequence[str]
) -> ClaimRow:
    """The row of a claim about a pair.

    Args:
        claim: as declared.
        pair: its name.
        variants: the pair's.
        found: what the commands gave for the pair.
        commands: what to type to see it again.
    """
    chosen = claim.variants or tuple(variants)
    results = [
        result
        for result in evidence.results
        if result.variant in chosen and (not claim.cases or result.case in claim.cases)
    ]
    results = [] if claim.compiled_only else results
    savings = savings_of(claim, chosen, evidence) if claim.saves else ()
    comparisons = [
        comparison
        for comparison in evidence.comparisons
        if comparison.variant in chosen and (not claim.real or comparison.case in claim.real)
    ]
    judged = [judged for comparison in comparisons for judged in comparison.expectations]
    shown = {name: bool(evidence.tests and evidence.tests.get(name)) for name in claim.tests}
    counts = Counter(result.verdict for result in results)
    values: Values = "not asked" if claim.compiled_only else values_of(results)
    saved = saved_of(savings) if claim.saves else None
    findings = [claim.finding] if claim.finding else []
    findings += [result.reason for result in results if result.reason and (result.exempt or "FINDING" in result.reason)]
    findings += [
        f"{expectation.shows} is not true: {expectation.finding}"
        for expectation in judged
        if expectation.finding and expectation.ok
    ]
    different = next((result for result in results if result.verdict == "different" and result.witness), None)
    return ClaimRow(
        id=claim.id,
        document=claim.document,
        says=claim.says,
        subject=pair,
        variants=chosen,
        values=values,
        verdicts={name: counts[name] for name in VERDICTS if counts[name]},
        exempt=sum(result.exempt for result in results),
        skipped=counts["skipped"],
        failed=sum(result.failed for result in results),
        figure=claim.saves,
        saved=saved,
        savings=savings,
        conditions=conditions_of(results),
        reasons=tuple(dict.fromkeys(str(result.reason) for result in results if _only_rounding(result))),
        findings=tuple(dict.fromkeys(" ".join(text.removeprefix("FINDING: ").split()) for text in findings)),
        witness=None if different is None else witness_of(different),
        shown_by=shown,
        said=None,
        commands=tuple(commands),
        # A test that did not run says nothing; one that failed does.
        holds="not told"
        if claim.tests and evidence.tests is None
        else holds_of(values, saved, qualified=bool(claim.finding)),
        ok=(bool(results) or claim.compiled_only)
        and not any(result.failed for result in results)
        and all(expectation.ok for expectation in judged)
        and all(shown.values())
        and (not claim.saves or bool(savings)),
    )


def command_claim_row(claim: Documented, subject: str, ended: ProcessResult | None, command: str) -> ClaimRow:
    """The row of a claim that a whole command stands for.

    Args:
        claim: as declared.
        subject: the model's name.
        ended: how the command ended; None where it did not run.
        command: what to type.
    """
    lines = [] if ended is None else [line.strip() for line in ended.out.splitlines()]
    line = next((line for line in lines if re.search(claim.prints, line)), None)
    holds: Holds = "not told"
    if ended is not None and ended.code not in (2, 3):
        holds = "holds" if ended.code == claim.exits and line is not None else "does not hold"
    return ClaimRow(
        id=claim.id,
        document=claim.document,
        says=claim.says,
        subject=subject,
        variants=(),
        values="not told",
        verdicts={},
        exempt=0,
        skipped=0,
        failed=0,
        figure=None,
        saved=None,
        savings=(),
        conditions=(),
        reasons=(),
        findings=(),
        witness=None,
        shown_by={},
        said=line or ("it did not run" if ended is None else f"exit code {ended.code}: {ended.last}"),
        commands=(command,),
        holds=holds,
        ok=holds == "holds",
    )


def _only_rounding(result: Result) -> bool:
    """Whether its reason says why it rounds, and is not among the findings."""
    return result.verdict == "rounding" and bool(result.reason) and "FINDING" not in str(result.reason)


def values_of(results: Iterable[Result]) -> Values:
    """What verdicts come to: the lowest rung decides; known differences count as differences."""
    seen = {result.verdict for result in results} - {"skipped"}
    if not seen or seen & {"error"}:
        return "not told"
    if seen & {"different", "unstable"}:
        return "not always the same" if seen - {"different", "unstable", "refused"} else "not the same"
    return "same mathematics" if "rounding" in seen else "same bits" if seen != {"refused"} else "not told"


def savings_of(claim: Documented, variants: Sequence[str], evidence: ClaimEvidence) -> tuple[Saving, ...]:
    """The figure of every variant beside the reference's, in the order of the run."""
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
    """Value over reference, to four digits; 1 where both are 0, infinity where only the reference is."""
    if value is None or reference is None:
        return None
    if reference == 0:
        return 1.0 if value == 0 else float("inf")
    return float(f"{value / reference:.4g}")


def saved_of(savings: Sequence[Saving]) -> Saved:
    """What all figures come to; one that is not known is not a saving."""
    ratios = [saving.ratio for saving in savings if saving.ratio is not None]
    if not ratios:
        return "not told"
    if all(ratio < 1 - NOISE for ratio in ratios) and len(ratios) == len(savings):
        return "saves"
    if any(ratio < 1 - NOISE for ratio in ratios):
        return "saves in part"
    return "costs" if any(ratio > 1 + NOISE for ratio in ratios) else "no change"


def holds_of(values: Values, saved: Saved | None, *, qualified: bool) -> Holds:
    """The claim as a whole: no better than its values, and no better than its saving.

    Args:
        values, saved: what was found.
        qualified: a finding is declared that neither of them says.
    """
    if values == "not told" or saved == "not told":
        return "not told"
    if values == "not the same" or saved in ("no change", "costs"):
        return "does not hold"
    if values == "not always the same" or saved == "saves in part" or qualified:
        return "holds in part"
    return "holds but for rounding" if values == "same mathematics" else "holds"


def conditions_of(results: Iterable[Result]) -> tuple[str, ...]:
    """For which inputs the contracts promise it, and which documented refusals there are."""
    conditions = []
    for result in results:
        if result.domain:
            conditions.append(result.domain)
        if result.verdict == "refused" and result.evidence:
            conditions.append(f"case {result.case} is refused: {result.evidence}")
    return tuple(dict.fromkeys(conditions))


def witness_of(result: Result) -> str:
    """The first differing element in words."""
    fields = ", ".join(f"{name} {value}" for name, value in dict(result.witness or {}).items() if value is not None)
    return f"{result.variant}, {result.case} on {result.mesh}, {result.direction} of {result.leaf}: {fields}"
