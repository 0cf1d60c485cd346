"""The table of claims on a page: what is otherwise than declared first, each row with its evidence folded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from samebits.audit.claims.row import ClaimRow
from samebits.report.claims import (
    EXPLAINED,
    ClaimsDocument,
    chip,
    claims_table,
    closing,
    compiler_line,
    exit_code,
    longest,
    notes,
)
from samebits.report.html.charts import spec
from samebits.report.html.section import Section, render
from samebits.report.words import plural, state_of

HOLDS = {
    "holds": ("✓", "passed"),
    "holds but for rounding": ("≈", "incomplete"),
    "holds in part": ("◐", "incomplete"),
    "does not hold": ("≠", "failed"),
    "not told": ("!", "failed"),
}
"""The sign of what a claim comes to, and the state whose colours it has."""

LINES = 40
"""Of a chart of figures: so many claims at most."""


def claims_section(document: ClaimsDocument) -> Section:
    """The section of a run of claims.

    Args:
        document: of `samebits audit claims`.
    """
    heads, cells = claims_table(document)
    rows = [_row(row, line) for row, line in zip(document.results, cells, strict=True)]
    rows.sort(key=lambda row: row["order"])
    charts = _charts(document.results)
    headline = _headline(document)
    return Section(
        command="claims",
        state=state_of(exit_code(document)),
        headline=headline,
        next_command=_next(document),
        body=render(
            "claims.html.j2",
            document=document,
            headline=headline,
            heads=heads[:-1],
            rows=rows,
            counts=[(HOLDS[state], state, count) for state, count in document.summary.states.items() if state in HOLDS],
            closing=closing(document),
            explained=EXPLAINED,
            longest=longest(document),
            compilers=compiler_line(document),
            charts=charts,
        ),
        charts=charts,
        styles=("evidence.css",),
    )


def _headline(document: ClaimsDocument) -> str:
    """Which claim is otherwise than declared, and why."""
    broken = _broken(document)
    if not broken:
        unknown = [row for row in document.results if row.holds == "not told"]
        if document.problems:
            first = document.problems[0]
            return f"{plural(len(document.problems), 'problem')}; first {first.pair}: {first.message}"
        if unknown:
            rows = f"{plural(len(unknown), 'row')} of {len(document.results)}"
            return f"{rows} could not be decided; first {_name(unknown[0])}"
        return closing(document)
    row = broken[0]
    count = f"{plural(len(broken), 'row')} of {len(document.results)} otherwise than declared"
    return f"{count}; first {_name(row)}, {row.holds}: {_why(row)}"


def _broken(document: ClaimsDocument) -> list[ClaimRow]:
    return [row for row in document.results if not row.ok and row.holds != "not told"]


def _name(row: ClaimRow) -> str:
    return f"{row.id} ({row.subject})"


def _why(row: ClaimRow) -> str:
    """What of a row is otherwise than declared."""
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


def _next(document: ClaimsDocument) -> str | None:
    rows = _broken(document) or [row for row in document.results if row.holds == "not told"]
    return next((command for row in rows for command in row.commands), None)


def _row(row: ClaimRow, cells: Sequence[str]) -> dict[str, Any]:
    """A claim with its evidence, as the template shows it."""
    sign, state = HOLDS[row.holds]
    return {
        "row": row,
        "cells": cells[:-1],
        "sign": sign,
        "state": "failed" if not row.ok else state if row.holds != "does not hold" else "incomplete",
        "order": 0 if not row.ok and row.holds != "not told" else 1 if not row.ok or row.holds == "not told" else 2,
        # The commands are shown with a button each, and the first line repeats the row.
        "evidence": notes(row)[1 : len(notes(row)) - len(row.commands)],
    }


def _charts(rows: Sequence[ClaimRow]) -> dict[str, dict[str, Any]]:
    """The compilers' figures beside the reference's; none without any."""
    import altair

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
    names = list(dict.fromkeys(str(point["claim"]) for point in points))[:LINES]
    if not points:
        return {}
    shown = [point for point in points if point["claim"] in set(names)]
    x = altair.X("times:Q", title="times the reference's figure", scale=altair.Scale(type="log"))
    y = altair.Y("claim:N", title=None, sort=names, axis=altair.Axis(labelLimit=160))
    tooltip = [altair.Tooltip(f"{name}:N") for name in ("claim", "figure", "times")]
    legend = altair.Legend(orient="top")
    marks = altair.Chart(altair.InlineData(values=shown)).mark_point(filled=True, size=55, opacity=0.8)
    marks = marks.encode(
        x=x.axis(altair.Axis(format="~g")),
        y=y,
        tooltip=tooltip,
        color=altair.Color("compiler:N", title=None, legend=legend),
        shape=altair.Shape("compiler:N", title=None, legend=legend),
    )
    same = altair.Chart(altair.InlineData(values=[{"times": 1}])).mark_rule(strokeDash=[4, 3])
    return {"savings": spec(altair.layer(same.encode(x=x), marks), height=max(80, 22 * len(names)))}
