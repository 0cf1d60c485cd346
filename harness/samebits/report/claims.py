"""Shows the table of claims in a terminal and a pull request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from rich.console import Console

from samebits.audit.claims.row import ClaimRow
from samebits.audit.claims.savings import NOISE, Saving
from samebits.host.environment import Environment
from samebits.host.written import Written
from samebits.report.document import SCHEMA
from samebits.report.markdown_fit import escaped, joined, markdown_table
from samebits.report.tables import WIDTH, line, show_table
from samebits.report.words import plural, state_word, verdict_counts
from samebits.schema.contract import DIRECTIONS
from samebits.schema.result import Problem, code_of

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
    """Everything that a run of `samebits audit claims` found, as it is written to JSON.

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
    failed = any(not row.ok and row.holds != "not told" for row in document.results)
    unknown = any(row.holds == "not told" for row in document.results) or not document.results
    return code_of(document.problems, failed=failed, undecided=unknown or document.summary.interrupted)


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


_CUT = 72
"""Columns of what a document says, in a terminal; whole in Markdown and JSON."""


def show_claims(to: Console, document: ClaimsDocument) -> None:
    """The table; below it findings, what fails, and one sentence."""
    if not to.is_terminal:
        to.width = max(to.width, WIDTH)
    line(to, compiler_line(document), "dim")
    heads, lines = claims_table(document)
    for cells in lines:
        cells[1] = cells[1] if len(cells[1]) <= _CUT else cells[1][: _CUT - 3] + "..."
    show_table(to, heads, lines)
    line(to)
    line(to, EXPLAINED, "dim")
    for row in document.results:
        name = f"{row.id} {row.subject}"
        for text in row.findings:
            line(to, f"{name}: finding: {text}", "yellow")
        if row.witness and row.exempt:
            line(to, f"{name}: witness: {row.witness}", "yellow")
        if not row.ok:
            for text in notes(row):
                line(to, f"{name}: {text}", "bold red")
    for problem in document.problems:
        line(to, f"problem: {problem.pair}: {problem.message}", "bold red")
    good = exit_code(document) == 0
    line(to, closing(document), "bold green" if good else "bold red")


def claims_markdown(document: ClaimsDocument, *, whole: bool = False) -> str:
    """The document as Markdown: the table, then what stands behind each row.

    Args:
        document: of the claims.
        whole: whether everything is written, however long it is; else of the rows behind the table those that fail.
    """
    parts = [
        f"### samebits audit claims: {state_word(exit_code(document), 'as declared', 'not as declared')}",
        escaped(closing(document)),
        escaped(compiler_line(document)),
        markdown_table(*claims_table(document)),
        escaped(EXPLAINED),
        escaped(longest(document)),
        *("problem: " + escaped(f"{problem.pair}: {problem.message}") for problem in document.problems),
        "#### What stands behind each row",
    ]
    for row in document.results if whole else [row for row in document.results if not row.ok]:
        parts.append(f"**{escaped(row.id)}, {escaped(row.subject)}: {row.holds}**")
        parts.append("\n".join(f"- {escaped(text)}" for text in notes(row)))
    return joined(parts, whole=whole)
