"""The comparison of a branch with its base for a pull request and for a terminal."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.text import Text

from samebits.report.declaration_lines import DeclarationLines
from samebits.report.diff import CHANGES, ChangedResult, DiffDocument
from samebits.report.markdown import escaped, markdown_table
from samebits.report.outcomes import OutcomeRow, Outcomes, problem_rows
from samebits.report.words import plural

CAP = 20
"""Rows of each kind that are written out; the rest is counted."""

COLUMNS = ("change", "pair", "variant", "where", "leaf", "base", "branch")
MOVED = ("pair", "where", "leaf", "base", "branch")

_SHOWN = ("new failure", "fell", "no longer compared", "still fails")
"""Changes that are written out; the others are counted."""


def diff_sentence(document: DiffDocument) -> str:
    """One sentence: how many results were compared, what changed, and what it comes to."""
    summary = document.summary
    counts = [f"{change} {summary.changes[change]}" for change in CHANGES if summary.changes.get(change)]
    if summary.moved:
        counts.append(f"the reference moved in {plural(summary.moved, 'leaf').replace('leafs', 'leaves')}")
    if document.problems:
        counts.append(plural(len(document.problems), "new problem"))
    state = f"{summary.failed} worse than the base" if summary.failed else "nothing is worse than the base"
    return f"{plural(summary.compared, 'result')} compared with the base: {', '.join(counts) or 'no change'}; {state}"


def diff_markdown(document: DiffDocument) -> str:
    """The comparison for a pull request."""
    parts = [
        f"### samebits against the base: {'worse' if document.summary.failed else 'held'}",
        escaped(diff_sentence(document)),
    ]
    shown = _shown(document)
    if shown:
        parts.append(markdown_table(COLUMNS, [_cells(changed) for changed in shown]))
    if document.moved:
        rows = [
            (row.pair, f"{row.case} {row.dtype}", _leaf(row.direction, row.leaf), row.before, row.after)
            for row in document.moved[:CAP]
        ]
        parts += ["#### The reference, or its inputs, have other bits", markdown_table(MOVED, rows)]
    lines = [f"problem: pair '{problem.pair}': {problem.message}" for problem in document.problems]
    lines += [*_left_out(document), *document.notes]
    if lines:
        parts.append("\n".join(f"- {escaped(line)}" for line in lines))
    return "\n\n".join(parts) + "\n"


def show_diff(to: Console, document: DiffDocument) -> None:
    """The comparison in a terminal."""
    for changed in _shown(document):
        place = f"{changed.pair}/{changed.variant}, {_where(changed)}, {_leaf(changed.direction, changed.leaf)}"
        verdicts = f"{changed.before or 'none'} -> {changed.after or 'none'}"
        _line(to, f"{_kind(changed).upper()}  {place}: {verdicts}")
        if changed.change in ("new failure", "fell"):
            _line(to, f"  replay    {changed.replay}")
    for row in document.moved[:CAP]:
        place = f"{row.pair}, case {row.case}, {row.dtype}, {_leaf(row.direction, row.leaf)}"
        _line(to, f"REFERENCE MOVED  {place}: {row.before} -> {row.after}")
    for line in (*_left_out(document), *document.notes):
        _line(to, line)
    _line(to, diff_sentence(document), "bold red" if document.summary.failed else "bold green")


def diff_outcomes(document: DiffDocument, lines: DeclarationLines) -> Outcomes:
    """The changes as continuous integration reads them; those that fail are failures."""
    rows = [
        OutcomeRow(
            pair=changed.pair,
            variant=changed.variant,
            case=changed.case,
            name=f"{changed.case}-{changed.dtype}-{changed.mesh}-{changed.mode}-{changed.direction}-{changed.leaf}",
            status="failed" if document.fails(changed) else "passed",
            verdict="new failure" if changed.change == "new failure" else f"{changed.change} below the base",
            message=_message(changed),
            details=(_message(changed), f"  replay    {changed.replay}"),
        )
        for changed in document.results
        if changed.change != "no longer compared"
    ]
    return Outcomes(command="report diff", rows=(*rows, *problem_rows(document.problems)), lines=lines)


def _message(changed: ChangedResult) -> str:
    reason = f"; {changed.reason}" if changed.reason else ""
    where = f"{_where(changed)}, {_leaf(changed.direction, changed.leaf)}"
    return f"{where}: {changed.before or 'not compared'} on the base, {changed.after} now{reason}"


def _shown(document: DiffDocument) -> list[ChangedResult]:
    shown: list[ChangedResult] = []
    for change in _SHOWN:
        shown += [changed for changed in document.results if changed.change == change][:CAP]
    return shown


def _left_out(document: DiffDocument) -> Iterable[str]:
    for change in _SHOWN:
        more = document.summary.changes.get(change, 0) - CAP
        if more > 0:
            yield f"{more} more: {change}"
    if len(document.moved) > CAP:
        yield f"{len(document.moved) - CAP} more: the reference moved"


def _cells(changed: ChangedResult) -> tuple[str, ...]:
    leaf = _leaf(changed.direction, changed.leaf)
    verdicts = (changed.before or "none", changed.after or "none")
    return (_kind(changed), changed.pair, changed.variant, _where(changed), leaf, *verdicts)


def _kind(changed: ChangedResult) -> str:
    return "fell, as declared" if changed.change == "fell" and changed.declared else changed.change


def _where(changed: ChangedResult) -> str:
    return f"case {changed.case}, {changed.dtype}, mesh {changed.mesh} ({changed.mode})"


def _leaf(direction: str, leaf: str) -> str:
    return f"gradient of {leaf}" if direction == "gradient" else leaf


def _line(to: Console, text: str, style: str = "") -> None:
    to.print(Text(text, style), soft_wrap=True)
