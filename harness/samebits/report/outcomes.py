"""The results of a command in the form that continuous integration reads: passed, failed, error or skipped.

In: the document of `check`, `prove` or `compile`. Out: one row per result, which `junit` and `workflow_commands` write.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from samebits.report.causes.cause import Cause, document_causes
from samebits.report.compile import CompileDocument
from samebits.report.declaration_lines import DeclarationLines
from samebits.report.document import Document
from samebits.report.failure import point_block
from samebits.report.prove import ProofDocument
from samebits.schema.program_facts import ClaimResult, SideBySide
from samebits.schema.proof import ProofResult
from samebits.schema.result import Problem, Result, requirement

Status = Literal["passed", "failed", "error", "skipped"]

_POINT = ("case", "dtype", "mesh", "mode", "direction")


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
    seen: set[tuple[str, ...]] = set()
    rows = []
    of_cause = {id(result): cause for cause in document_causes(document) for result in cause.results}
    for result in document.results:
        point = (result.pair, result.variant, *(getattr(result, name) for name in _POINT))
        # The seconds are those of the whole point: they count once.
        row, cause = _of_result(result, 0.0 if point in seen else result.seconds), of_cause.get(id(result))
        if row.status == "skipped" and document.no_skips:
            row = replace(row, status="error", message=f"{row.message}; a skipped result fails the run (--no-skips)")
        rows.append(replace(row, cause=cause, example=cause is not None and cause.example is result))
        seen.add(point)
    return Outcomes(command="check", rows=(*rows, *problem_rows(document.problems)), lines=lines)


def _of_result(result: Result, seconds: float) -> OutcomeRow:
    status: Status = "passed" if result.ok else "skipped" if result.verdict == "skipped" else "failed"
    if result.failed and result.verdict == "error":
        status = "error"
    return OutcomeRow(
        pair=result.pair,
        variant=result.variant,
        case=result.case,
        name=_name(result),
        status=status,
        verdict=result.verdict,
        message="" if result.ok else _message(result, _witness(result)),
        details=() if result.ok else tuple(point_block([result])),
        seconds=seconds,
        properties=_properties(
            result, ("verdict", "required", "evidence", "reason", "elements", "mismatches", "max_ulp", "bits", "replay")
        ),
    )


def proof_outcomes(document: ProofDocument, lines: DeclarationLines) -> Outcomes:
    """The rows of `samebits prove`, one per leaf; what is not proved is an error, what is refuted a failure."""
    rows = [_of_proof(proof) for proof in document.results]
    return Outcomes(command="prove", rows=(*rows, *problem_rows(document.problems)), lines=lines)


def _of_proof(proof: ProofResult) -> OutcomeRow:
    lines = [
        f"  {title:<9} {text}"
        for title, text in (
            ("leaf", proof.leaf),
            ("verdict", f"{proof.verdict}, required {requirement(proof.required, proof.reason)}"),
            ("reason", proof.reason),
            ("witness", proof.witness),
            ("replay", proof.replay),
        )
        if text
    ]
    where = ", ".join(getattr(proof, name) for name in _POINT)
    return OutcomeRow(
        pair=proof.pair,
        variant=proof.variant,
        case=proof.case,
        name=_name(proof),
        status="passed" if proof.ok else "failed" if proof.refutes else "error",
        verdict="refuted" if proof.refutes else proof.verdict if proof.ok else "not proved",
        message="" if proof.ok else _message(proof, proof.witness),
        details=() if proof.ok else (f"{proof.pair}/{proof.variant}, {where}", *lines),
        seconds=proof.seconds,
        properties=_properties(
            proof, ("verdict", "required", "method", "domain", "reason", "elements", "log2_error", "replay")
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
        properties=_properties(comparison, ("target", "same_program", "verdict", "reason", "temp_ratio", "wire_ratio")),
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


def _name(result: Result | ProofResult) -> str:
    return "-".join((*(getattr(result, name) for name in _POINT), result.leaf))


def _message(result: Result | ProofResult, witness: str | None) -> str:
    """What was found and what is required, with the witness, on one line."""
    leaf = "" if result.leaf == "*" else f"{result.leaf}: "
    parts = (f"{leaf}{result.verdict}, required {requirement(result.required, result.reason)}", witness, result.reason)
    return " ".join("; ".join(part for part in parts if part).split())


def _witness(result: Result) -> str | None:
    return None if result.witness is None else witness_words(result.witness)


def witness_words(witness: Mapping[str, Any]) -> str:
    """An element that differs, with both values in decimal and hex, on one line.

    Args:
        witness: as in `Result`.
    """
    where = f"{witness['leaf']}[{', '.join(map(str, witness['index']))}]" if witness["index"] else str(witness["leaf"])
    sides = (f"{side}={witness[side]} ({witness[f'{side}_hex']})" for side in ("reference", "optimized"))
    return f"{where}: {', '.join(sides)}"


def _properties(record: Any, names: Iterable[str]) -> dict[str, str]:
    values = {name: getattr(record, name) for name in names}
    return {name: str(value) for name, value in values.items() if value not in (None, "")}
