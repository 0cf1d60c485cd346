"""The report of `samebits claims`: the document, and the cells that terminal and Markdown share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from samebits.audit.claims.row import ClaimRow
from samebits.audit.claims.savings import NOISE, Saving
from samebits.host.environment import Environment
from samebits.host.written import Written
from samebits.report.document import SCHEMA
from samebits.report.words import plural, verdict_counts
from samebits.schema.contract import DIRECTIONS
from samebits.schema.result import Problem

STATES = ("holds", "holds but for rounding", "holds in part", "does not hold", "not told")

EXPLAINED = (
    "values: the lowest verdict over all cases, meshes and directions. same bits: proved, or bitwise on every input "
    "tried; same mathematics: only rounding differs, inside its contract. The columns of compilers: the figure that "
    "is said to be saved (temporary memory unless another is named), as multiples of the reference's, forward / "
    f"gradient, from the least to the most over sides, sizes and targets; a change below {NOISE:.0%} does not count"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Ran:
    """One command that the rows rest on.

    Args:
        command: what to type for the same.
        exit_code: null where it could not run.
        seconds: while others ran beside it.
    """

    command: str
    exit_code: int | None
    seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class ClaimsSummary:
    """The counts of a run.

    Args:
        claims, rows: distinct claims, and rows (one per pair that speaks of a claim).
        states: how many rows come to what.
        broken: rows that are otherwise than declared.
        skipped: results that did not run, over all rows.
        figures: compiled figures that stand in the rows.
    """

    claims: int
    rows: int
    states: Mapping[str, int]
    broken: int
    skipped: int
    figures: int
    seconds: float
    interrupted: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class ClaimsDocument:
    """Everything that a run of `samebits claims` found, as it is written to JSON.

    Args:
        environment: of the checks; null where none ended.
        compilers: versions by target.
        results: the rows, in the order of their claims.
        commands: what ran for them, the longest first.
        problems: what could not be decided.
    """

    schema: Literal["samebits/1"] = SCHEMA
    command: Literal["claims"] = "claims"
    environment: Environment | None
    compilers: Mapping[str, str | None]
    results: tuple[ClaimRow, ...]
    commands: tuple[Ran, ...]
    problems: tuple[Problem, ...]
    summary: ClaimsSummary
    written: Written | None = None


def exit_code(document: ClaimsDocument) -> int:
    """0: every row is as declared; 1: one is not; 2: a wrong declaration; 3: something could not be decided."""
    if any(not row.ok and row.holds != "not told" for row in document.results):
        return 1
    codes = {problem.exit_code for problem in document.problems}
    if 2 in codes:
        return 2
    unknown = any(row.holds == "not told" for row in document.results)
    return 3 if codes or unknown or document.summary.interrupted or not document.results else 0


def summarise(rows: Sequence[ClaimRow], seconds: float, interrupted: bool) -> ClaimsSummary:
    """The counts over rows."""
    counts: Counter[str] = Counter(row.holds for row in rows)
    return ClaimsSummary(
        claims=len({row.id for row in rows}),
        rows=len(rows),
        states={state: counts[state] for state in STATES if counts[state]},
        broken=sum(not row.ok for row in rows),
        skipped=sum(row.skipped for row in rows),
        figures=sum(len(row.savings) for row in rows),
        seconds=round(seconds, 1),
        interrupted=interrupted,
    )


def chips(rows: Iterable[ClaimRow]) -> list[str]:
    """The compilers that figures come from, the CPU's first: `cpu`, `tpu7x`, `v5p`."""
    names = {chip(saving.target) for row in rows for saving in row.savings}
    return sorted(names, key=lambda name: (name != "cpu", name))


def chip(target: str) -> str:
    """`v5p` of `v5p:2x2x1`."""
    return target.partition(":")[0]


def claims_table(document: ClaimsDocument) -> tuple[list[str], list[list[str]]]:
    """Heads, and a row per claim and pair."""
    columns = chips(document.results)
    heads = ["claim", "what the document says", "pair", "values", *columns, "the claim"]
    return heads, [_cells(row, columns) for row in document.results]


def _cells(row: ClaimRow, columns: Sequence[str]) -> list[str]:
    sides = f"{row.subject}: {', '.join(row.variants)}" if row.variants else row.subject
    counts = f" ({verdict_counts(row.verdicts)})" if row.verdicts else ""
    values = row.said if row.said is not None else f"{row.values}{counts}"
    if row.values == "not asked" and row.shown_by:
        values = f"shown by {plural(len(row.shown_by), 'test')}"
    figures = [cell([saving for saving in row.savings if chip(saving.target) == name]) for name in columns]
    return [row.id, row.says, sides, values, *figures, row.holds if row.ok else f"FAILS: {row.holds}"]


def cell(savings: Sequence[Saving]) -> str:
    """`0.33x / 0.5-1x`: forward and gradient, each from the least to the most."""
    parts = []
    for direction in DIRECTIONS:
        chosen = [saving for saving in savings if saving.direction == direction]
        ratios = sorted(saving.ratio for saving in chosen if saving.ratio is not None)
        if not chosen:
            continue
        least, most = (_times(ratios[0]), _times(ratios[-1])) if ratios else ("?", "?")
        parts.append(f"{least}x" if least == most else f"{least}-{most}x")
    return " / ".join(parts)


def _times(ratio: float) -> str:
    return f"{ratio:.2g}" if ratio < 10 else f"{ratio:.0f}"


def notes(row: ClaimRow) -> list[str]:
    """What stands below the table: conditions, findings, numbers, and what to type."""
    lines = [f"{row.document}: {row.says}"]
    if row.figure and row.figure != "temp_bytes":
        lines.append(f"said to be saved: {row.figure}")
    lines += [f"condition: {text}" for text in row.conditions]
    lines += [f"rounding: {text}" for text in row.reasons]
    lines += [f"finding: {text}" for text in row.findings]
    if row.witness:
        lines.append(f"witness: {row.witness}")
    lines += [f"{name}: {'passed' if ok else 'FAILED or did not run'}" for name, ok in row.shown_by.items()]
    if row.exempt:
        lines.append(f"known differences among the results: {row.exempt}")
    if row.failed:
        lines.append(f"FAILS: {plural(row.failed, 'result')} against the contract")
    if row.skipped:
        lines.append(f"skipped: {row.skipped}")
    if row.said is not None:
        lines.append(f"said: {row.said}")
    lines += [figure_line(saving) for saving in row.savings]
    return [*lines, *(f"again: {command}" for command in row.commands)]


def figure_line(saving: Saving) -> str:
    """One compiled figure in words."""
    same = ", the same program" if saving.same_program else ""
    ratio = "" if saving.ratio is None else f", {saving.ratio:.4g}x"
    return (
        f"{saving.target}, {saving.case}, {saving.direction}, {saving.variant}: {_figure(saving.reference_value)} -> "
        + (f"{_figure(saving.value)}{ratio}{same}")
    )


def _figure(value: float | None) -> str:
    if value is None:
        return "no figure"
    return f"{value:,.0f}".replace(",", " ") if float(value).is_integer() else f"{value:.4g}"


def closing(document: ClaimsDocument) -> str:
    """One sentence for the whole run."""
    s = document.summary
    states = ", ".join(f"{state} {count}" for state, count in s.states.items()) or "nothing"
    begin = f"{plural(s.claims, 'claim')} in {plural(s.rows, 'row')}: {states}"
    declared = "as declared where judged" if document.problems else "all as declared"
    state = f"{s.broken} otherwise than declared" if s.broken else declared
    skipped = f", {s.skipped} skipped" if s.skipped else ""
    problems = f"; {plural(len(document.problems), 'problem')}" if document.problems else ""
    cut = "interrupted; " if s.interrupted else ""
    return f"{cut}{begin}; {plural(s.figures, 'compiled figure')}; {state}{skipped}{problems}; {s.seconds:.0f} s"


def longest(document: ClaimsDocument) -> str:
    """What ran, and what of it took longest."""
    first = ", ".join(f"{command.command} ({command.seconds:.0f} s)" for command in document.commands[:5])
    return f"{plural(len(document.commands), 'command')} ran, beside each other; the longest: {first}"


def compiler_line(document: ClaimsDocument) -> str:
    """Versions, in one line."""
    parts = [] if document.environment is None else [document.environment.lines()[0]]
    parts += [f"{target}: {version}" for target, version in document.compilers.items()]
    return "; ".join(parts)
