"""Values of one static argument on a page: the compiler's figures of each as bars, results, and which is best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from samebits.report.html.charts import BarGroup, bars, size_text
from samebits.report.html.section import Section, render
from samebits.report.tune import (
    EXPLAINED,
    HEADS,
    TuneDocument,
    best_line,
    closing_of_tuning,
    exit_code_of_tuning,
    groups,
    place_of_trial,
    small_lines,
    tuned_rows,
    tuned_title,
)
from samebits.report.words import State, plural, state_of
from samebits.schema.tuning import TuningBest, TuningTrial

_SIZES = {"temp_bytes": "temporary memory", "peak_bytes": "peak memory", "bytes_accessed": "memory traffic"}


@dataclass(frozen=True, slots=True)
class TunedView:
    """The values of one side in one direction on one target."""

    title: str
    state: State
    chart: str | None
    rows: list[list[str]]
    lines: list[str]
    best: str
    open: bool


def tune_section(document: TuneDocument) -> Section:
    """The section of one tuning.

    Args:
        document: of `samebits compile --tune`.
    """
    charts: dict[str, Mapping[str, Any]] = {}
    best = {place_of_trial(choice): choice for choice in document.best}
    views = [_view(trials, place, best, charts) for place, trials in enumerate(groups(document.trials))]
    headline = _headline(document)
    return Section(
        title="compile --tune",
        command="tune",
        state=state_of(exit_code_of_tuning(document), "failed"),
        headline=headline,
        next_command=None,
        body=render(
            "tune.html.j2",
            document=document,
            closing=closing_of_tuning(document),
            headline=headline,
            views=sorted(views, key=lambda view: view.state == "passed"),
            heads=HEADS,
            explained=EXPLAINED,
        ),
        charts=charts,
        styles=("compile.css",),
    )


def _view(
    trials: Sequence[TuningTrial],
    place: int,
    best: Mapping[tuple[str, ...], TuningBest],
    charts: dict[str, Mapping[str, Any]],
) -> TunedView:
    choice = best.get(place_of_trial(trials[0]))
    programs = {trial.program for trial in trials if trial.program is not None}
    # Bars of one and the same program say nothing.
    figures = _figures(trials) if len(programs) > 1 else []
    chart = f"values-{place}" if figures else None
    if chart is not None:
        charts[chart] = bars(figures, [trial.value for trial in trials if trial.program is not None])
    wrong, unknown = any(trial.equal is False for trial in trials), any(trial.equal is None for trial in trials)
    return TunedView(
        title=tuned_title(trials),
        state="failed" if wrong else "incomplete" if unknown else "passed",
        chart=chart,
        rows=[_row(trial, cells) for trial, cells in zip(trials, tuned_rows(trials), strict=True)],
        lines=[
            *(f"{trial.value} is rejected: {trial.refused}" for trial in trials if trial.refused),
            *small_lines(trials),
        ],
        best="" if choice is None else best_line(choice),
        open=wrong or unknown or chart is not None,
    )


def _row(trial: TuningTrial, cells: Sequence[str]) -> list[str]:
    """A row of the table; the words of a rejection stand below it."""
    return list(cells) if trial.refused is None else [*cells[:-1], "rejected"]


def _figures(trials: Sequence[TuningTrial]) -> list[BarGroup]:
    """The figures that at least one value has any of."""
    compiled = [trial for trial in trials if trial.program is not None]
    figures = []
    for field, name in _SIZES.items():
        values = {trial.value: getattr(trial, field) for trial in compiled}
        if any(values.values()):
            figures.append(BarGroup(name, values, {value: size_text(size) for value, size in values.items()}))
    seconds = {trial.value: trial.optimal_seconds for trial in compiled}
    if any(seconds.values()):
        texts = {value: "" if time is None else f"{time * 1e6:,.1f} us" for value, time in seconds.items()}
        figures.append(BarGroup("estimated time", seconds, texts))
    return figures


def _headline(document: TuneDocument) -> str:
    """Which value gives other results; else what was tried."""
    wrong = [trial for trial in document.trials if trial.equal is False]
    if not wrong:
        return closing_of_tuning(document)
    first, more = wrong[0], f"; and {len(wrong) - 1} more" if len(wrong) > 1 else ""
    count = f"{len(wrong)} of {plural(len(document.trials), 'trial')} with other results"
    return (
        f"{count}: {first.argument}={first.value} of {first.pair}/{first.side}, {first.direction}: {first.small}{more}"
    )
