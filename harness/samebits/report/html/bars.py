"""Bars of a few figures of a few things side by side, each figure on its own scale: memory of both sides of a pair."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from samebits.report.html.charts import SIDES, spec

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
