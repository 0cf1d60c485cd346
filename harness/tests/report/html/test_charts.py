"""What all charts share."""

from typing import Any

import altair

from samebits.report.html.charts import COLOURS, bundle, spec, svg
from samebits.schema.result import VERDICTS


def _bars() -> Any:
    rows = [{"verdict": verdict, "count": 1} for verdict in VERDICTS]
    scale = altair.Scale(domain=[*COLOURS], range=[*COLOURS.values()])
    colour = altair.Color("verdict:N", scale=scale)
    return altair.Chart(altair.Data(values=rows)).mark_bar().encode(x="count:Q", y="verdict:N", color=colour)


def test_a_chart_is_as_wide_as_its_place() -> None:
    made = spec(_bars(), height=120)
    assert (made["width"], made["height"]) == ("container", 120)
    assert "config" not in made


def test_every_verdict_has_a_colour_in_the_picture() -> None:
    picture = svg(spec(_bars()))
    assert all(COLOURS[verdict] in picture for verdict in VERDICTS)


def test_the_library_ends_no_script_element() -> None:
    assert "</script" not in bundle()
    assert "window.vegaEmbed=" in bundle()
