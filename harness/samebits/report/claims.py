"""The documents of `samebits audit claims`, and their page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from samebits.audit.claims.row import NOISE, ClaimRow, Saving
from samebits.host.environment import Environment
from samebits.report.causes import usual_page
from samebits.report.document import CommandDocument
from samebits.report.findings import judged
from samebits.report.html.charts import alt, spec
from samebits.report.page import Badge, Chart, CommandLine, Fold, Line, Lines, Page, Table
from samebits.report.words import plural, verdict_counts
from samebits.schema.contract import DIRECTIONS
from samebits.schema.finding import Finding, Place
from samebits.schema.result import Problem, code_of

STATES = ("holds", "holds but for rounding", "holds in part", "does not hold", "undecided")

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
class ClaimsDocument(CommandDocument):
    """Everything that a run of `samebits audit claims` found, as it is written to JSON.

    Args:
        environment: of the checks; null where none ended.
        compilers: versions by target.
        results: the rows, in the order of their claims.
        commands: what ran for them, the longest first.
        problems: what could not be decided.
    """

    command: Literal["claims"] = "claims"
    environment: Environment | None
    compilers: Mapping[str, str | None]
    results: tuple[ClaimRow, ...]
    commands: tuple[Ran, ...]
    problems: tuple[Problem, ...]
    summary: ClaimsSummary

    @property
    def exit_code(self) -> int:
        """0: every row is as declared; 1: one is not; 2: a wrong declaration; 3: something could not be decided."""
        failed = any(not row.ok and row.holds != "undecided" for row in self.results)
        unknown = any(row.holds == "undecided" for row in self.results) or not self.results
        return code_of(self.problems, failed=failed, undecided=unknown or self.summary.interrupted)

    def as_findings(self) -> Iterator[Finding]:
        """Yield what is judged."""
        for claim in self.results:
            yield judged(
                "claims",
                Place(pair=claim.subject, item=claim.id),
                claim.holds,
                ok=claim.ok,
                evidence=claim.witness if claim.ok or claim.holds == "undecided" else _why(claim),
                required=claim.says,
                why="; ".join(claim.findings),
                replay=next(iter(claim.commands), ""),
            )

    def page(self) -> Page:
        """Return the table, what is otherwise than declared first, each row with its evidence."""
        rows = sorted(self.results, key=_order)
        heads, cells = claims_table(rows)
        bad = [number for number, row in enumerate(rows) if not row.ok]
        table = Table(
            heads=heads,
            rows=[[*line, _badge(row)] for row, line in zip(rows, cells, strict=True)],
            caption="Every claim and pair, what is otherwise than declared first; the evidence is folded below each",
            bad=bad,
            wide=heads[1:2],
            most=_CUT,
            details={number: _evidence(row) for number, row in enumerate(rows)},
        )
        findings = [Line(f"{row.id} {row.subject}: {text}", "warn") for row in rows for text in _found(row)]
        return replace(
            usual_page(self, ("as declared", "not as declared")),
            closing=closing(self),
            explained=True,
            blocks=[
                table,
                Lines(lines=findings, media=("terminal",)),
                Lines(lines=[Line(EXPLAINED, "dim")], listed=False),
                *_chart(self.results),
                Lines(lines=[Line(longest(self), "dim"), Line(compiler_line(self), "dim")], listed=False),
            ],
        )


def summarise(rows: Sequence[ClaimRow], seconds: float, interrupted: bool) -> ClaimsSummary:
    """Return the counts over rows."""
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
    """Return the compilers that figures come from, the CPU's first: `cpu`, `tpu7x`, `v5p`."""
    names = {chip(saving.target) for row in rows for saving in row.savings}
    return sorted(names, key=lambda name: (name != "cpu", name))


def chip(target: str) -> str:
    """Return `v5p` of `v5p:2x2x1`."""
    return target.partition(":")[0]


def claims_table(rows: Sequence[ClaimRow]) -> tuple[list[str], list[list[str]]]:
    """Return the heads, and of each row the cells but the last, which is what the claim comes to."""
    columns = chips(rows)
    heads = ["claim", "what the document says", "pair", "values", *columns, "the claim"]
    return heads, [_cells(row, columns) for row in rows]


def _cells(row: ClaimRow, columns: Sequence[str]) -> list[str]:
    sides = f"{row.subject}: {', '.join(row.variants)}" if row.variants else row.subject
    counts = f" ({verdict_counts(row.verdicts)})" if row.verdicts else ""
    values = row.said if row.said is not None else f"{row.values}{counts}"
    if row.values == "not tested" and row.shown_by:
        values = f"shown by {plural(len(row.shown_by), 'test')}"
    figures = [cell([saving for saving in row.savings if chip(saving.target) == name]) for name in columns]
    return [row.id, row.says, sides, values, *figures]


def cell(savings: Sequence[Saving]) -> str:
    """Return `0.33x / 0.5-1x`: forward and gradient, each from the least to the most."""
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
    """Return what stands behind a row: conditions, findings and numbers."""
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
    return lines


def figure_line(saving: Saving) -> str:
    """Return one compiled figure in words."""
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
    """Write one sentence for the whole run."""
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
    """Return what ran, and what of it took longest."""
    first = ", ".join(f"{command.command} ({command.seconds:.0f} s)" for command in document.commands[:5])
    return f"{plural(len(document.commands), 'command')} ran, beside each other; the longest: {first}"


def compiler_line(document: ClaimsDocument) -> str:
    """Return versions, in one line."""
    parts = [] if document.environment is None else [document.environment.lines()[0]]
    parts += [f"{target}: {version}" for target, version in document.compilers.items()]
    return "; ".join(parts)


_CUT = 72
"""Characters of what a document says, in a terminal; whole in Markdown and JSON."""

_BADGES: Mapping[str, Badge] = {
    "holds": Badge(text="holds", sign="✓", tone="good"),
    "holds but for rounding": Badge(text="holds but for rounding", sign="≈", tone="warn"),
    "holds in part": Badge(text="holds in part", sign="◐", tone="warn"),
    "does not hold": Badge(text="does not hold", sign="≠", tone="warn"),
    "undecided": Badge(text="undecided", sign="!", tone="bad"),
}


_LONGEST_CHART = 40
"""Claims in the chart at most."""

_LABEL = (
    "The compilers' figures that are claimed to become smaller, as multiples of the reference's: left of the dashed "
    "line less, right of it more. The table has the same figures."
)


def _order(row: ClaimRow) -> int:
    return 2 if row.ok and row.holds != "undecided" else 1 if row.holds == "undecided" else 0


def _badge(row: ClaimRow) -> Badge:
    badge = _BADGES[row.holds]
    return badge if row.ok else Badge(text=f"FAILS: {row.holds}", sign="✗", tone="bad")


def _found(row: ClaimRow) -> list[str]:
    witness = [f"witness: {row.witness}"] if row.witness and row.exempt else []
    return [*(f"finding: {text}" for text in row.findings), *witness]


def _evidence(row: ClaimRow) -> Fold:
    title = f"evidence of {row.id}, {row.subject}"
    commands = [CommandLine(text=command) for command in row.commands]
    return Fold(title=title, blocks=[Lines(lines=notes(row), indent=4), *commands], open=not row.ok)


def _why(row: ClaimRow) -> str:
    """Say what of a row is otherwise than declared."""
    untested = [name for name, ok in row.shown_by.items() if not ok]
    if row.failed:
        return f"{plural(row.failed, 'result')} against the contract" + (f", {row.witness}" if row.witness else "")
    if untested:
        return f"test {untested[0]} failed or did not run"
    if row.figure and not row.savings:
        return f"no compiled figure of {row.figure}"
    if row.said is not None:
        return f"said: {row.said}"
    return row.findings[0] if row.findings else "a claim about its programs is not true"


def _chart(rows: Sequence[ClaimRow]) -> list[Chart]:
    """Draw the compilers' figures beside the reference's; nothing without any."""
    points = [
        {
            "claim": f"{row.id} {row.subject}",
            "times": saving.ratio,
            "compiler": chip(saving.target),
            "figure": f"{saving.variant}, {saving.case}, {saving.direction}, {saving.target}",
        }
        for row in rows
        for saving in row.savings
        if saving.ratio is not None and saving.ratio > 0
    ]
    names = list(dict.fromkeys(str(point["claim"]) for point in points))[:_LONGEST_CHART]
    shown = [point for point in points if point["claim"] in set(names)]
    return [Chart(name="savings", label=_LABEL, draw=lambda: _drawn(shown, names))] if shown else []


def _drawn(shown: Sequence[Mapping[str, object]], names: Sequence[str]) -> Mapping[str, Any]:
    x = alt.X("times:Q", title="times the reference's figure", scale=alt.Scale(type="log"))
    y = alt.Y("claim:N", title=None, sort=names, axis=alt.Axis(labelLimit=160))
    tooltip = [alt.Tooltip(f"{name}:N") for name in ("claim", "figure", "times")]
    legend = alt.Legend(orient="top")
    marks = alt.Chart(alt.InlineData(values=shown)).mark_point(filled=True, size=55, opacity=0.8)
    marks = marks.encode(
        x=x.axis(alt.Axis(format="~g")),
        y=y,
        tooltip=tooltip,
        color=alt.Color("compiler:N", title=None, legend=legend),
        shape=alt.Shape("compiler:N", title=None, legend=legend),
    )
    same = alt.Chart(alt.InlineData(values=[{"times": 1}])).mark_rule(strokeDash=[4, 3])
    return spec(alt.layer(same.encode(x=x), marks), height=max(80, 22 * len(names)))
