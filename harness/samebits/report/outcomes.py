"""The results of a command in the form that continuous integration reads: passed, failed, error or skipped.

In: the document of `check`, `prove` or `compile`. Out: one row per result, which `junit` and `workflow_commands` write.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from samebits.report.causes.cause import Cause, document_causes
from samebits.report.compile import CompileDocument
from samebits.report.declaration_lines import DeclarationLines
from samebits.report.document import Document
from samebits.report.failure import point_block
from samebits.report.prove import ProofDocument
from samebits.schema.finding import Finding, Place
from samebits.schema.program_facts import ClaimResult, SideBySide
from samebits.schema.result import Problem, requirement

Status = Literal["passed", "failed", "error", "skipped"]


@dataclass(frozen=True, kw_only=True, slots=True)
class OutcomeRow:
    """One result.

    Args:
        pair, variant, case: whose; empty for what belongs to no variant or case.
        name: of the result among those of its variant.
        status: `error` where it could not be decided whether the contract holds.
        verdict: in the command's own words.
        message: why it is not passed, on one line.
        details: the lines that explain it, replay included.
        seconds: of this result; the sum over all rows is the time of the points.
        properties: what else is known, as texts.
        cause: what it failed of together with others, where that is known.
        example: whether it is the smallest of those.
    """

    pair: str
    variant: str = ""
    case: str = ""
    name: str
    status: Status
    verdict: str
    message: str = ""
    details: tuple[str, ...] = ()
    seconds: float = 0.0
    properties: Mapping[str, str] = field(default_factory=dict)
    cause: Cause | None = None
    example: bool = False

    @property
    def holds(self) -> bool:
        """Whether this result lets the command end with exit code 0."""
        return self.status in ("passed", "skipped")


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcomes:
    """All rows of a command.

    Args:
        command: such as `check`.
        rows: in the order of the document.
        lines: where the pairs are declared.
    """

    command: str
    rows: tuple[OutcomeRow, ...]
    lines: DeclarationLines

    def ended_with(self, code: int) -> Outcomes:
        """The same, with a row that is an error where the exit code is not 0 and no row says why."""
        if code == 0 or not all(row.holds for row in self.rows):
            return self
        judged = sum(row.status == "passed" for row in self.rows)
        message = f"samebits {self.command} ended with exit code {code}"
        message += "" if judged else ": nothing was compared"
        row = OutcomeRow(pair="samebits", name=self.command, status="error", verdict="error", message=message)
        return replace(self, rows=(*self.rows, row))


def check_outcomes(document: Document, lines: DeclarationLines) -> Outcomes:
    """The rows of `samebits check`, one per leaf."""
    seen: set[Place] = set()
    rows = []
    of_cause = {id(result): cause for cause in document_causes(document) for result in cause.results}
    for result in document.results:
        point = replace(result.place, leaf="")
        # The seconds are those of the whole point: they count once.
        row, cause = _of_result(result, 0.0 if point in seen else result.seconds), of_cause.get(id(result))
        if row.status == "skipped" and document.no_skips:
            row = replace(row, status="error", message=f"{row.message}; a skipped result fails the run (--no-skips)")
        rows.append(replace(row, cause=cause, example=cause is not None and cause.example is result))
        seen.add(point)
    return Outcomes(command="check", rows=(*rows, *problem_rows(document.problems)), lines=lines)


def _of_result(result: Finding, seconds: float) -> OutcomeRow:
    place, ruling, seen = result.place, result.ruling, result.comparison
    status: Status = "passed" if ruling.ok else "skipped" if ruling.verdict == "skipped" else "failed"
    if result.failed and ruling.verdict == "error":
        status = "error"
    return OutcomeRow(
        pair=place.pair,
        variant=place.variant,
        case=place.case,
        name=_name(place),
        status=status,
        verdict=ruling.verdict,
        message="" if ruling.ok else _message(result, None if seen.witness is None else str(seen.witness)),
        details=() if ruling.ok else tuple(point_block([result])),
        seconds=seconds,
        properties=_texts(
            verdict=ruling.verdict,
            required=ruling.required,
            evidence=ruling.evidence,
            reason=ruling.reason,
            elements=seen.elements,
            mismatches=seen.mismatches,
            max_ulp=seen.max_ulp,
            bits=seen.bits,
            replay=result.replay,
        ),
    )


def proof_outcomes(document: ProofDocument, lines: DeclarationLines) -> Outcomes:
    """The rows of `samebits prove`, one per leaf; what is not proved is an error, what is refuted a failure."""
    rows = [_of_proof(proof) for proof in document.results]
    return Outcomes(command="prove", rows=(*rows, *problem_rows(document.problems)), lines=lines)


def _of_proof(result: Finding) -> OutcomeRow:
    place, ruling, proof = result.place, result.ruling, result.proof
    lines = [
        f"  {title:<9} {text}"
        for title, text in (
            ("leaf", place.leaf),
            ("verdict", f"{ruling.verdict}, required {requirement(ruling.required, ruling.reason)}"),
            ("reason", ruling.reason),
            ("witness", proof.refutation),
            ("replay", result.replay),
        )
        if text
    ]
    return OutcomeRow(
        pair=place.pair,
        variant=place.variant,
        case=place.case,
        name=_name(place),
        status="passed" if ruling.ok else "failed" if result.refutes else "error",
        verdict="refuted" if result.refutes else ruling.verdict if ruling.ok else "not proved",
        message="" if ruling.ok else _message(result, proof.refutation),
        details=() if ruling.ok else (f"{place.side()}, {', '.join(_point(place))}", *lines),
        seconds=result.seconds,
        properties=_texts(
            verdict=ruling.verdict,
            required=ruling.required,
            method=proof.method,
            domain=proof.domain,
            reason=ruling.reason,
            elements=result.comparison.elements,
            log2_error=proof.log2_error,
            replay=result.replay,
        ),
    )


def compile_outcomes(document: CompileDocument, lines: DeclarationLines) -> Outcomes:
    """The rows of `samebits compile`, one per claim; a comparison without claims is one that passes."""
    rows: list[OutcomeRow] = []
    for comparison in document.comparisons:
        rows += [_of_claim(comparison, claim) for claim in comparison.expectations] or [_of_claim(comparison, None)]
    return Outcomes(command="compile", rows=(*rows, *problem_rows(document.problems)), lines=lines)


def _of_claim(comparison: SideBySide, claim: ClaimResult | None) -> OutcomeRow:
    status: Status = "passed" if claim is None or claim.ok else "error" if claim.holds is None else "failed"
    where = f"{comparison.case}-{comparison.dtype}-{comparison.mesh}-{comparison.direction}-{comparison.target}"
    row = OutcomeRow(
        pair=comparison.pair,
        variant=comparison.variant,
        case=comparison.case,
        name=where if claim is None else f"{where}-{claim.shows}",
        status=status,
        verdict=comparison.verdict or "compiled",
        properties=_texts(
            target=comparison.target,
            same_program=comparison.same_program,
            verdict=comparison.verdict,
            reason=comparison.reason,
            temp_ratio=comparison.temp_ratio,
            wire_ratio=comparison.wire_ratio,
        ),
    )
    if claim is None or status == "passed":
        return row
    message = f"claim '{claim.shows}' is not as declared: {claim.got}"
    lines = (f"  claim     {claim.shows}", f"  source    {claim.source}", f"  got       {claim.got}")
    head = f"{comparison.pair}/{comparison.variant}, case {comparison.case}, {comparison.direction}, target "
    verdict = "no figure" if claim.holds is None else "claim fails"
    return replace(row, verdict=verdict, message=message, details=(head + comparison.target, *lines))


def problem_rows(problems: Iterable[Problem]) -> list[OutcomeRow]:
    """The rows of what could not be judged at all."""
    rows: list[OutcomeRow] = []
    for problem in problems:
        name = "declaration" if problem.exit_code == 2 else "run"
        repeated = sum(row.pair == problem.pair and row.name.startswith(name) for row in rows)
        text = " ".join(problem.message.split())
        rows.append(
            OutcomeRow(
                pair=problem.pair,
                name=f"{name} {repeated + 1}" if repeated else name,
                status="failed" if problem.exit_code == 1 else "error",
                verdict="not checked",
                message=text,
                details=(text,),
            )
        )
    return rows


def _point(place: Place) -> tuple[str, ...]:
    return place.case, place.dtype, place.mesh, place.mode, place.direction


def _name(place: Place) -> str:
    return "-".join((*_point(place), place.leaf))


def _message(result: Finding, witness: str | None) -> str:
    """What was found and what is required, with the witness, on one line."""
    leaf, ruling = "" if result.place.leaf == "*" else f"{result.place.leaf}: ", result.ruling
    parts = (f"{leaf}{ruling.verdict}, required {requirement(ruling.required, ruling.reason)}", witness, ruling.reason)
    return " ".join("; ".join(part for part in parts if part).split())


def _texts(**values: object) -> dict[str, str]:
    return {name: str(value) for name, value in values.items() if value not in (None, "")}
