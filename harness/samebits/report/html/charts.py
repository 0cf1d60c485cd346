"""What all charts share: Vega's code, and colours. A chart is a Vega-Lite specification, made with Altair."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from samebits.report.page import Chart

if TYPE_CHECKING:
    import altair

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


def spec(chart: altair.TopLevelMixin, *, height: int = 240) -> dict[str, Any]:
    """The specification of a chart as wide as its place; the page sets fonts and colours of axes by its theme.

    Args:
        chart: made with Altair; its own width is replaced.
        height: of the plot, in pixels.
    """
    written: dict[str, Any] = chart.to_dict()
    written.pop("config", None)
    if not {"hconcat", "vconcat", "concat", "facet", "repeat"} & set(written):
        written |= {"width": "container", "height": height, "autosize": {"type": "fit-x", "contains": "padding"}}
    return written


@functools.cache
def bundle() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script, which sets `window.vegaEmbed`."""
    import vl_convert

    script: str = vl_convert.javascript_bundle("window.vegaEmbed=vegaEmbed;")
    # A script element ends at the first `</script`, wherever it stands; in a string of JavaScript `<\/script` is equal.
    return "(()=>{" + script.replace("</script", "<\\/script").replace("<!--", "<\\!--") + "})();"


def svg(specification: Mapping[str, Any]) -> str:
    """A chart as SVG, without a browser.

    Args:
        specification: as `spec` gives it.
    """
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
    """Colours of so many things; the first is the reference."""
    known = [*SIDES.values(), *MORE_COLOURS]
    return [known[number % len(known)] for number in range(count)]


def bars(figures: Sequence[BarGroup], names: Sequence[str]) -> dict[str, Any]:
    """A group of bars for each figure; the longest bar of a group is that of its largest value.

    Args:
        figures: at least one.
        names: of the things, the reference first.
    """
    import altair as alt

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
    """Return the figures in bytes that at least one thing has any of.

    Args:
        things: by name, the reference first.
        fields: of each thing, such as `facts.temp_bytes`, with what they are called.
    """
    groups = []
    for field, name in fields.items():
        values = {key: attrgetter(field)(thing) for key, thing in things.items()}
        if any(values.values()):
            groups.append(BarGroup(name, values, {key: size_text(size) for key, size in values.items()}))
    return groups


def bar_charts(name: str, label: str, groups: Sequence[BarGroup], names: Sequence[str]) -> list[Chart]:
    """Return the bars of figures as blocks of a page; none without figures.

    Args:
        name, label: of the chart.
        groups, names: as `bars` takes them.
    """
    return [Chart(name=name, label=label, draw=lambda: bars(groups, names))] if groups else []


def size_text(size: float | None) -> str:
    """A size in bytes to three digits, such as `7.03 GB`; a dash where there is no figure."""
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
