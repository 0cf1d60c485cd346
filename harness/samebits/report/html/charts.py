"""What all charts share: Vega's code, and colours. A chart is a Vega-Lite specification, made with Altair."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

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
