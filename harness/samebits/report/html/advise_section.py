"""Advice on a page: what is bound by what it moves first, what each parallelism has and wants, and the figures used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from samebits.audit.guide.advice import Advice
from samebits.report.advise import (
    BLOCK_HEADS,
    HEADS,
    TRAFFIC_HEADS,
    AdviseDocument,
    block_rows,
    figure_lines,
    head,
    label,
    rule_rows,
    sentence,
    traffic_rows,
)
from samebits.report.html.charts import COLOURS, spec
from samebits.report.html.section import Section, render
from samebits.report.words import plural, state_of

SIGNS = {"compute-bound": "✓", "communication-bound": "✗", "memory-bound": "✗", "unknown": "!"}


def advise_section(document: AdviseDocument) -> Section:
    """The section of the advice for a model on a mesh of chips.

    Args:
        document: of `samebits audit advise`.
    """
    charts = _charts(document.results)
    rows = [*zip(document.results, rule_rows(document.results), strict=True)]
    return Section(
        title=f"advise {document.model} on {document.target}",
        command="advise",
        state=state_of(document.exit_code),
        headline=_headline(document),
        next_command=None,
        body=render(
            "advise.html.j2",
            document=document,
            head=head(document),
            heads=HEADS,
            numeric=("intensity", "needs", "has", "wants"),
            rows=[(SIGNS[advice.verdict], advice.verdict, cells[:-1]) for advice, cells in rows],
            sentences=[(SIGNS[advice.verdict], sentence(advice, document.model)) for advice in document.results],
            block_heads=BLOCK_HEADS,
            blocks=block_rows(document.results),
            traffic_heads=TRAFFIC_HEADS,
            traffic=[] if document.compiled is None else traffic_rows(document.compiled),
            figures=figure_lines(document),
            charts=charts,
        ),
        charts=charts,
        styles=("evidence.css",),
    )


def _headline(document: AdviseDocument) -> str:
    """What is bound by what it moves, or what is not known."""
    bound = [advice for advice in document.results if advice.verdict in ("communication-bound", "memory-bound")]
    unknown = [advice for advice in document.results if advice.verdict == "unknown"]
    chosen = bound or unknown
    if not chosen:
        return f"{document.model} on {document.target}, mesh {document.mesh}: all of it is compute-bound"
    what = "bound by what it moves" if bound else "unknown"
    count = f"{len(chosen)} of {plural(len(document.results), 'parallelism').replace('parallelisms', 'rules')} {what}"
    return (
        f"{document.model} on {document.target}, mesh {document.mesh}: {count}; {sentence(chosen[0], document.model)}"
    )


def _charts(results: Sequence[Advice]) -> dict[str, dict[str, Any]]:
    """What each parallelism has, as a multiple of what it wants."""
    import altair

    rows = [
        {"parallelism": label(advice), "times": advice.has / advice.wants, "verdict": advice.verdict}
        for advice in results
        if advice.wants and advice.has > 0
    ]
    if not rows:
        return {}
    names = [str(row["parallelism"]) for row in rows]
    scale = altair.Scale(type="log")
    x = altair.X("times:Q", title="has, as a multiple of what it wants", scale=scale, axis=altair.Axis(format="~g"))
    verdicts = ["compute-bound", "communication-bound", "memory-bound"]
    colours = [COLOURS["bitwise"], COLOURS["different"], COLOURS["error"]]
    legend = altair.Legend(orient="top")
    points = altair.Chart(altair.InlineData(values=rows)).mark_point(filled=True, size=110, opacity=1)
    points = points.encode(
        x=x,
        y=altair.Y("parallelism:N", title=None, sort=names, axis=altair.Axis(labelLimit=140)),
        color=altair.Color("verdict:N", title=None, legend=legend).scale(domain=verdicts, range=colours),
        shape=altair.Shape("verdict:N", title=None, legend=legend).scale(
            domain=verdicts, range=["circle", "cross", "triangle-up"]
        ),
        tooltip=[altair.Tooltip(f"{name}:N") for name in ("parallelism", "times", "verdict")],
    )
    enough = altair.Chart(altair.InlineData(values=[{"times": 1}])).mark_rule(strokeDash=[4, 3]).encode(x=x)
    return {"margins": spec(altair.layer(enough, points), height=max(80, 30 * len(rows)))}
