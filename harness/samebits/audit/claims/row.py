"""The row of one claim of a document: verdicts, savings, conditions and findings.

In: the claim as declared, and the results of the commands that were run for it. Out: a `ClaimRow`. Runs nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Literal

from samebits.host.subprocesses import ProcessResult
from samebits.schema.document_claim import Documented, Holds
from samebits.schema.finding import Finding
from samebits.schema.program_facts import ClaimResult, CompiledSide, SideBySide
from samebits.schema.result import VERDICTS

# The saving of a variant, such as less temporary memory, by the compilers' figures beside the reference's.
Saved = Literal["saves", "saves in part", "no change", "costs", "undecided"]

NOISE = 0.02
"""A figure within 2 % of the reference's counts as unchanged: padding and scratch memory move as much (seen: 0.4 %)."""


@dataclass(frozen=True, slots=True)
class ClaimEvidence:
    """The results of the commands that were run for one pair.

    Args:
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
    for each in evidence.comparisons:
        if each.variant not in variants or each.variant == each.reference or each.verdict == "refused":
            continue
        if each.case not in (claim.real or (each.case,)) or each.direction not in (
            claim.directions or (each.direction,)
        ):
            continue
        place = (each.case, each.target, each.direction)
        mine, other = (
            by_place.get((*place, side, True)) or by_place.get((*place, side, False))
            for side in (each.variant, each.reference)
        )
        if mine is None or other is None:
            continue
        value, reference = getattr(mine, str(claim.saves)), getattr(other, str(claim.saves))
        savings.append(
            Saving(
                target=each.target,
                case=each.case,
                direction=each.direction,
                variant=each.variant,
                reference_value=reference,
                value=value,
                ratio=ratio_of(value, reference),
                same_program=each.same_order,
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
        return "undecided"
    if all(ratio < 1 - NOISE for ratio in ratios) and len(ratios) == len(savings):
        return "saves"
    if any(ratio < 1 - NOISE for ratio in ratios):
        return "saves in part"
    return "costs" if any(ratio > 1 + NOISE for ratio in ratios) else "no change"


Values = Literal["same bits", "same mathematics", "not always the same", "not the same", "not tested", "undecided"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ClaimRow:
    """A claim, with the results that support or contradict it.

    Args:
        id, document, says: as declared.
        subject: the pair, or the model.
        variants: the sides that implement the change.
        values: the summary of the verdicts.
        verdicts: the number of results with each verdict.
        exempt, skipped, failed: numbers of known differences, of results that did not run, and of violated contracts.
        figure: the figure that is claimed to become smaller, if any.
        saved: the summary of `savings`; None if no saving is claimed.
        savings: the compilers' figures.
        conditions: the inputs for which the contracts hold, and the expected errors.
        reasons: why the contracts accept less than equal bits, with the measured numbers.
        findings: what qualifies the claim, with numbers.
        witness: the first difference, in words; None if there is none.
        shown_by: the tests that show the declared finding, and whether each passed.
        said: for a claim that a command shows: the line that it printed, or its exit code.
        commands: the commands that reproduce the row.
        holds: the claim as a whole.
        ok: whether contracts, claims about programs, tests and exit codes are as declared.
    """

    id: str
    document: str
    says: str
    subject: str
    variants: tuple[str, ...] = ()
    values: Values = "undecided"
    verdicts: Mapping[str, int] = field(default_factory=dict)
    exempt: int = 0
    skipped: int = 0
    failed: int = 0
    figure: str | None = None
    saved: Saved | None = None
    savings: tuple[Saving, ...] = ()
    conditions: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()
    witness: str | None = None
    shown_by: Mapping[str, bool] = field(default_factory=dict)
    said: str | None = None
    commands: tuple[str, ...]
    holds: Holds
    ok: bool


def claim_row(
    claim: Documented, pair: str, variants: Sequence[str], evidence: ClaimEvidence, commands: Sequence[str]
) -> ClaimRow:
    """Return the row of a claim about a pair."""
    chosen = claim.variants or tuple(variants)
    results = _results(claim, chosen, evidence)
    savings = savings_of(claim, chosen, evidence) if claim.saves else ()
    expectations = [
        expectation
        for comparison in evidence.comparisons
        if comparison.variant in chosen and (not claim.real or comparison.case in claim.real)
        for expectation in comparison.expectations
    ]
    tests = {name: bool(evidence.tests and evidence.tests.get(name)) for name in claim.tests}
    counts = Counter(result.ruling.verdict for result in results)
    values: Values = "not tested" if claim.compiled_only else values_of(results)
    saved = saved_of(savings) if claim.saves else None
    differing = (result for result in results if result.ruling.verdict == "different")
    different = next((result for result in differing if result.comparison.witness), None)
    ran = claim.compiled_only or bool(counts.keys() - {"skipped"})
    # A test that did not run says nothing; one that failed does.
    untested = bool(claim.tests) and evidence.tests is None
    return ClaimRow(
        id=claim.id,
        document=claim.document,
        says=claim.says,
        subject=pair,
        variants=chosen,
        values=values,
        verdicts={name: counts[name] for name in VERDICTS if counts[name]},
        exempt=sum(result.ruling.exempt for result in results),
        skipped=counts["skipped"],
        failed=sum(result.failed for result in results),
        figure=claim.saves,
        saved=saved,
        savings=savings,
        conditions=conditions_of(results),
        reasons=tuple(dict.fromkeys(str(result.ruling.reason) for result in results if _only_rounding(result))),
        findings=_findings(claim, results, expectations),
        witness=None if different is None else witness_of(different),
        shown_by=tests,
        commands=tuple(commands),
        holds="undecided" if untested else holds_of(values, saved, qualified=bool(claim.finding)),
        ok=ran
        and not any(result.failed for result in results)
        and all(expectation.ok for expectation in expectations)
        and all(tests.values())
        and (not claim.saves or bool(savings)),
    )


def _results(claim: Documented, variants: Sequence[str], evidence: ClaimEvidence) -> list[Finding]:
    """Return the results of `check` that a claim speaks of."""
    if claim.compiled_only:
        return []
    return [
        result
        for result in evidence.results
        if result.place.variant in variants and (not claim.cases or result.place.case in claim.cases)
    ]


def _findings(claim: Documented, results: Sequence[Finding], expectations: Sequence[ClaimResult]) -> tuple[str, ...]:
    """Return what qualifies a claim: its own finding, findings of results, and known failures of program claims."""
    findings = [claim.finding] if claim.finding else []
    rulings = (result.ruling for result in results)
    findings += [each.reason for each in rulings if each.reason and (each.exempt or "FINDING" in each.reason)]
    findings += [
        f"{expectation.shows} is not true: {expectation.finding}"
        for expectation in expectations
        if expectation.finding and expectation.ok
    ]
    return tuple(dict.fromkeys(" ".join(text.removeprefix("FINDING: ").split()) for text in findings))


def command_claim_row(claim: Documented, subject: str, ended: ProcessResult | None, command: str) -> ClaimRow:
    """Return the row of a claim that a command shows."""
    lines = [] if ended is None else [line.strip() for line in ended.out.splitlines()]
    line = next((line for line in lines if re.search(claim.prints, line)), None)
    holds: Holds = "undecided"
    if ended is not None and ended.code not in (2, 3):
        holds = "holds" if ended.code == claim.exits and line is not None else "does not hold"
    return ClaimRow(
        id=claim.id,
        document=claim.document,
        says=claim.says,
        subject=subject,
        said=line or ("it did not run" if ended is None else f"exit code {ended.code}: {ended.last}"),
        commands=(command,),
        holds=holds,
        ok=holds == "holds",
    )


def _only_rounding(result: Finding) -> bool:
    """Return whether a result is `rounding` with a reason that is not a finding."""
    reason = result.ruling.reason
    return result.ruling.verdict == "rounding" and bool(reason) and "FINDING" not in str(reason)


def values_of(results: Iterable[Finding]) -> Values:
    """Return the summary of verdicts: the lowest one decides; known differences count as differences."""
    seen = {result.ruling.verdict for result in results} - {"skipped"}
    if not seen or seen & {"error"}:
        return "undecided"
    if seen & {"different", "unstable"}:
        return "not always the same" if seen - {"different", "unstable", "refused"} else "not the same"
    return "same mathematics" if "rounding" in seen else "same bits" if seen != {"refused"} else "undecided"


def holds_of(values: Values, saved: Saved | None, *, qualified: bool) -> Holds:
    """Return whether the claim holds as a whole: it is no better than its values, its saving and its own finding."""
    if values == "undecided" or saved == "undecided":
        return "undecided"
    if values == "not the same" or saved in ("no change", "costs"):
        return "does not hold"
    if values == "not always the same" or saved == "saves in part" or qualified:
        return "holds in part"
    return "holds but for rounding" if values == "same mathematics" else "holds"


def conditions_of(results: Iterable[Finding]) -> tuple[str, ...]:
    """Return the inputs for which the contracts hold, and the cases with an expected error."""
    conditions = []
    for result in results:
        if result.ruling.domain:
            conditions.append(result.ruling.domain)
        if result.ruling.verdict == "refused" and result.ruling.evidence:
            conditions.append(f"case {result.place.case} is refused: {result.ruling.evidence}")
    return tuple(dict.fromkeys(conditions))


def witness_of(result: Finding) -> str:
    """Return the first differing element in words."""
    place, witness = result.place, result.comparison.witness
    known = {} if witness is None else {**asdict(witness), "index": list(witness.index)}
    fields = ", ".join(f"{name} {value}" for name, value in known.items() if value is not None)
    return f"{place.variant}, {place.case} on {place.mesh}, {place.direction} of {place.leaf}: {fields}"
