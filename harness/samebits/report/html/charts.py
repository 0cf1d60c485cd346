"""All charts as Vega-Lite specifications, made with Altair: bars, curves of training runs, and where these part."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from samebits.report.page import Chart

if TYPE_CHECKING:
    from samebits.train.record import RunRecord, StepRecord


class _Altair:
    """Altair, which is imported where a chart is drawn: no other page needs it."""

    def __getattr__(self, name: str) -> Any:
        import altair

        return getattr(altair, name)


alt = _Altair()

COLOURS = {
    "proved": "#0f766e",
    "bitwise": "#2e8540",
    "refused": "#6b7fa8",
    "rounding": "#c08a00",
    "different": "#d1323b",
    "unstable": "#b4459a",
    "error": "#d9652b",
    "skipped": "#8a8f98",
}
"""The colour of each verdict in a chart; each has a contrast of 3:1 at least on a light and on a dark page."""

SIDES = {"reference": "#3b7dd8", "optimized": "#c08a00"}
"""The colours of both sides of a pair."""


def spec(chart: Any, *, height: int = 240) -> dict[str, Any]:
    """Return the specification of a chart as wide as its place; its fonts and colours of axes are of the page."""
    written: dict[str, Any] = chart.to_dict()
    written.pop("config", None)
    if not {"hconcat", "vconcat", "concat", "facet", "repeat"} & set(written):
        written |= {"width": "container", "height": height, "autosize": {"type": "fit-x", "contains": "padding"}}
    return written


@functools.cache
def bundle() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script, which sets `window.vegaEmbed`."""
    import vl_convert

    script: str = vl_convert.javascript_bundle("window.vegaEmbed=vegaEmbed;")
    # A script element ends at the first `</script`, wherever it stands; in a string of JavaScript `<\/script` is equal.
    return "(()=>{" + script.replace("</script", "<\\/script").replace("<!--", "<\\!--") + "})();"


def svg(specification: Mapping[str, Any]) -> str:
    """Return a chart as SVG, without a browser."""
    import vl_convert

    fixed = {**specification, "width": 600} if specification.get("width") == "container" else specification
    picture: str = vl_convert.vegalite_to_svg(dict(fixed))
    return picture


MORE_COLOURS = ("#0f766e", "#b4459a", "#d9652b", "#6b7fa8", "#8a8f98")
"""The colours of further variants; each has a contrast of 3:1 at least on a light and on a dark page."""

_ROOM = 1.45
"""The axis is longer than the longest bar, so that its label fits beside it."""

_BAR, _GAP = 17, 16


@dataclass(frozen=True, slots=True)
class BarGroup:
    """One figure of several things.

    Args:
        name: what it is, such as `temporary memory`.
        values: by the name of the thing; None where there is no figure.
        texts: the same as words, which stand beside the bars.
    """

    name: str
    values: Mapping[str, float | None]
    texts: Mapping[str, str]


def colour_range(count: int) -> list[str]:
    """Return colours of so many things; the first is the reference."""
    known = [*SIDES.values(), *MORE_COLOURS]
    return [known[number % len(known)] for number in range(count)]


def bars(figures: Sequence[BarGroup], names: Sequence[str]) -> dict[str, Any]:
    """Draw a group of bars for each figure; the longest bar of a group is that of its largest value."""
    rows = [
        {"figure": figure.name, "side": name, "share": value / (max(known) or 1), "text": figure.texts[name]}
        for figure in figures
        if (known := [number for number in figure.values.values() if number is not None])
        for name in names
        if (value := figure.values.get(name)) is not None
    ]
    base = alt.Chart(alt.Data(values=rows)).encode(
        y=alt.Y(
            "figure:N", sort=[figure.name for figure in figures], title=None, axis=alt.Axis(ticks=False, domain=False)
        ),
        yOffset=alt.YOffset("side:N", sort=list(names)),
        x=alt.X("share:Q", scale=alt.Scale(domain=[0, _ROOM]), axis=None),
        tooltip=[alt.Tooltip(f"{name}:N") for name in ("figure", "side", "text")],
    )
    scale = alt.Scale(domain=list(names), range=colour_range(len(names)))
    colour = alt.Color("side:N", scale=scale, legend=alt.Legend(orient="top", title=None))
    chart = base.mark_bar().encode(color=colour) + base.mark_text(align="left", dx=4).encode(text="text:N")
    return spec(chart, height=len(figures) * (_BAR * len(names) + _GAP))


def size_groups(things: Mapping[str, object], fields: Mapping[str, str]) -> list[BarGroup]:
    """Return the figures in bytes, such as `facts.temp_bytes`, that at least one thing has any of."""
    groups = []
    for field, name in fields.items():
        values = {key: attrgetter(field)(thing) for key, thing in things.items()}
        if any(values.values()):
            groups.append(BarGroup(name, values, {key: size_text(size) for key, size in values.items()}))
    return groups


def bar_charts(name: str, label: str, groups: Sequence[BarGroup], names: Sequence[str]) -> list[Chart]:
    """Return the bars of figures as blocks of a page; none without figures."""
    return [Chart(name=name, label=label, draw=lambda: bars(groups, names))] if groups else []


def size_text(size: float | None) -> str:
    """Return a size in bytes to three digits, such as `7.03 GB`; a dash where there is no figure."""
    if size is None:
        return "–"  # noqa: RUF001  an en dash
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if abs(size) >= scale:
            number = size / scale
            return (
                f"{number:.2f} {unit}"
                if number < 9.995
                else f"{number:.1f} {unit}"
                if number < 99.95
                else f"{number:.0f} {unit}"
            )
    return f"{size:.0f} B"


Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Split:
    """A run that leaves the runs whose bits it had.

    Args:
        run: that leaves.
        step: the first step with other bits.
        leaf: the first array with other bits there, in the order of computation.
        others: the first of the runs that it leaves.
    """

    run: str
    step: int
    leaf: str
    others: str


def clusters_by_step(runs: Sequence[RunRecord]) -> list[Row]:
    """Return which runs have had the same bits up to each step, all runs being equal before the first.

    Returns:
        A row for each run at each step: the first run, in the order of the document, with the same bits up to it, and
        whether the run had the bits of another one a step before.
    """
    if not runs:
        return []
    leaders = {run.config: runs[0].config for run in runs}
    cells = []
    for place in range(max(len(run.steps) for run in runs)):
        first: dict[tuple[str, str], str] = {}
        before = leaders
        leaders = {}
        for run in runs:
            if place >= len(run.steps):
                continue
            leader = first.setdefault((before[run.config], _bits(run.steps[place])), run.config)
            leaders[run.config] = leader
            split = leader != before[run.config]
            cells.append({"run": run.config, "step": place + 1, "group": leader, "split": split})
    return cells


def splits(runs: Sequence[RunRecord]) -> list[Split]:
    """Return where runs leave the runs whose bits they had, in the order of the document."""
    from samebits.train.distance import first_parting  # training may be absent, and other charts need none of it

    by_name = {run.config: run for run in runs}
    before: dict[str, str] = {run.config: runs[0].config for run in runs}
    parted = []
    for cell in clusters_by_step(runs):
        run, others = cell["run"], before[cell["run"]]
        parting = first_parting(by_name[others], by_name[run]) if cell["split"] and others != run else None
        if parting is not None and parting[0] == cell["step"]:
            parted.append(Split(run, *parting, others))
        before[run] = cell["group"]
    return parted


def _bits(step: StepRecord) -> str:
    return " ".join([step.loss_hex, *(f"{name}={leaf.digest}" for name, leaf in sorted(step.digests.items()))])


RUN_COLOURS = (
    *("#3b7dd8", "#c08a00", "#0f766e", "#d1323b", "#b4459a", "#2e8540"),
    *("#d9652b", "#7c5cd6", "#0891b2", "#9a6a3a", "#6b7fa8", "#8a8f98"),
)
"""Colours of runs, on a light and on a dark page; more runs than that have the same ones with other dashes."""

_SHORT = 20
"""Characters of a name at most where two names stand beside each other, on a narrow screen too."""

_BEYOND = COLOURS["different"]
_BOUND = COLOURS["refused"]


def curves(rows: Sequence[Row], value: str, title: str, runs: Sequence[str]) -> dict[str, Any]:
    """Draw one line for each run over steps."""
    chart = _line(rows).encode(
        x=_steps(rows),
        y=alt.Y(f"{value}:Q", title=title, scale=alt.Scale(zero=False)),
        color=_run_colour(runs, runs),
        strokeDash=alt.StrokeDash("run:N", sort=list(runs), legend=None),
        tooltip=[alt.Tooltip("run:N"), alt.Tooltip("step:Q"), alt.Tooltip(f"{value}:Q", format=".9g")],
    )
    return spec(chart)


def _line(rows: Sequence[Row]) -> Any:
    chart = alt.Chart(alt.Data(values=list(rows)))
    return chart.mark_line(point=alt.OverlayMarkDef(size=22), strokeWidth=1.5)


def distances(
    rows: Sequence[Row], bounds: Sequence[Row], runs: Sequence[str], *, first: tuple[int, str] | None
) -> dict[str, Any]:
    """Draw the distance of losses over steps, with what rounding alone does, the bound, and the first split.

    Args:
        rows: with `run`, `pair`, `step`, `ulps` and `first`.
        bounds: with `step`, `bound` and, where it was measured, `noise`.
        runs: as for `curves`.
        first: the step of the first split, and its words; None where there is none.
    """
    scale = alt.Scale(type="symlog", constant=1)
    y = alt.Y(
        "ulps:Q",
        title="distance of the loss, ulps",
        scale=scale,
        axis=alt.Axis(tickCount=5, tickMinStep=1, format="~s"),
    )
    tooltip = [alt.Tooltip("pair:N"), alt.Tooltip("step:Q"), alt.Tooltip("ulps:Q")]
    base = alt.Chart(alt.Data(values=list(rows))).encode(x=_steps(rows), y=y, tooltip=tooltip)
    layers: list[Any] = []
    if bounds:
        within = alt.Chart(alt.Data(values=list(bounds))).encode(x=_steps(rows))
        layers += [
            within.mark_area(opacity=0.18, color=_BOUND).encode(y=alt.Y("bound:Q", scale=scale)),
            within.mark_line(strokeDash=[5, 3], color=_BOUND).encode(y="bound:Q"),
        ]
        if "noise" in bounds[0]:
            layers.append(within.mark_line(strokeDash=[1, 3], color=_BOUND).encode(y="noise:Q"))
    # Layers share a legend only where they ask for the same one.
    colour = _run_colour(runs, _of_rows(runs, rows))
    layers.append(
        base.mark_line(point=alt.OverlayMarkDef(size=22), strokeWidth=1.5).encode(color=colour, detail="pair:N")
    )
    layers.append(
        base.transform_filter("datum.first").mark_point(shape="triangle-up", size=110, filled=True).encode(color=colour)
    )
    if first is not None:
        layers += _marked_step(first)
    return spec(alt.layer(*layers))


def relative_distances(rows: Sequence[Row], value: str, title: str, runs: Sequence[str]) -> dict[str, Any]:
    """Draw relative distances over steps on a logarithmic scale; a distance of 0 has no point there."""
    chart = _line([row for row in rows if row[value]]).encode(
        x=_steps(rows),
        y=alt.Y(f"{value}:Q", title=title, scale=alt.Scale(type="log"), axis=alt.Axis(format=".0e", tickCount=5)),
        color=_run_colour(runs, _of_rows(runs, rows)),
        detail="pair:N",
        tooltip=[alt.Tooltip("pair:N"), alt.Tooltip("step:Q"), alt.Tooltip(f"{value}:Q", format=".3g")],
    )
    return spec(chart)


def bounds_used(rows: Sequence[Row]) -> dict[str, Any]:
    """Draw how much of its bound each comparison uses; what is beyond 1 is a difference."""
    base = alt.Chart(alt.Data(values=list(rows))).encode(
        y=alt.Y("pair:N", sort=[row["pair"] for row in rows], title=None, axis=alt.Axis(labelLimit=200)),
        x=alt.X(
            "used:Q",
            title="share of the bound",
            scale=alt.Scale(type="symlog", constant=0.5),
            axis=alt.Axis(tickCount=5),
        ),
        tooltip=[alt.Tooltip(f"{name}:N") for name in ("pair", "leaf", "used", "verdict")],
    )
    scale = alt.Scale(
        domain=["bitwise", "rounding", "different"],
        range=[COLOURS[name] for name in ("bitwise", "rounding", "different")],
    )
    colour = alt.Color("verdict:N", scale=scale, legend=alt.Legend(orient="top", title=None))
    limit = alt.Chart(alt.Data(values=[{"limit": 1}])).mark_rule(strokeDash=[5, 3], size=2).encode(x="limit:Q")
    chart = base.mark_bar(height=12).encode(color=colour) + limit
    return spec(chart, height=max(len(rows), 1) * 24)


def equal_bits(cells: Sequence[Row], runs: Sequence[str]) -> dict[str, Any]:
    """Draw runs over steps; those of one colour and number have had the same bits so far, a triangle marks a split."""
    numbers = {name: place for place, name in enumerate(runs, 1)}
    rows = [{**cell, "number": numbers[cell["group"]]} for cell in cells]
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X("step:O", title="step", axis=alt.Axis(labelAngle=0, labelOverlap=True)),
        y=alt.Y("run:N", sort=list(runs), title=None, axis=alt.Axis(labelLimit=160)),
        tooltip=[alt.Tooltip("run:N"), alt.Tooltip("step:O"), alt.Tooltip("group:N", title="bits of")],
    )
    cell = base.mark_rect(opacity=0.45).encode(color=alt.Color("group:N", scale=_run_scale(runs), legend=None))
    number = base.mark_text().encode(text="number:N")
    split = base.transform_filter("datum.split").mark_point(
        shape="triangle-right", filled=True, size=60, xOffset=-12, color=_BEYOND
    )
    return spec(cell + number + split, height=len(runs) * 24)


def _steps(rows: Sequence[Row]) -> Any:
    last = max((row["step"] for row in rows), default=1)
    return alt.X(
        "step:Q",
        title="step",
        scale=alt.Scale(domain=[1, max(last, 2)], nice=False),
        axis=alt.Axis(tickMinStep=1, tickCount=min(last, 10), format="d"),
    )


def _marked_step(first: tuple[int, str]) -> list[Any]:
    step, words = first
    base = alt.Chart(alt.Data(values=[{"step": step, "words": words}])).encode(x="step:Q")
    rule = base.mark_rule(color=_BEYOND, size=1.5)
    text = base.mark_text(align="left", baseline="bottom", dx=5, dy=-4).encode(y=alt.value("height"), text="words:N")
    return [rule, text]


def _run_scale(runs: Sequence[str]) -> Any:
    colours = [RUN_COLOURS[place % len(RUN_COLOURS)] for place in range(len(runs))]
    return alt.Scale(domain=list(runs), range=colours)


def _of_rows(runs: Sequence[str], rows: Sequence[Row]) -> list[str]:
    there = {row["run"] for row in rows}
    return [run for run in runs if run in there]


def _run_colour(runs: Sequence[str], listed: Sequence[str]) -> Any:
    """Return the colour of each run, with a legend of those that are listed."""
    legend = alt.Legend(
        orient="bottom",
        columns=1 if max(map(len, listed), default=0) > _SHORT else 2,
        title=None,
        labelLimit=280,
        symbolLimit=0,
        values=list(listed),
    )
    return alt.Color("run:N", sort=list(runs), scale=_run_scale(runs), legend=legend)
