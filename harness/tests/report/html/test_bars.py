"""Bars: one for each figure of each thing, with its number beside it; what has no figure has no bar."""

from __future__ import annotations

from typing import Any

from samebits.report.html.charts import SIDES, svg
from samebits.report.html.compile_facts import BarGroup, bars, colour_range

MEMORY = BarGroup("memory", {"gather": 4.0, "permute": 1.0}, {"gather": "4 B", "permute": "1 B"})
TRAFFIC = BarGroup("traffic", {"gather": None, "permute": 9.0}, {"gather": "-", "permute": "9 B"})


def rows(specification: dict[str, Any]) -> dict[tuple[str, str], float]:
    data = specification["data"]["values"]
    return {(row["figure"], row["side"]): row["share"] for row in data}


def test_each_figure_has_its_own_scale() -> None:
    made = bars([MEMORY, TRAFFIC], ["gather", "permute"])
    assert rows(made) == {("memory", "gather"): 1, ("memory", "permute"): 0.25, ("traffic", "permute"): 1}


def test_the_numbers_are_in_the_picture() -> None:
    picture = svg(bars([MEMORY, TRAFFIC], ["gather", "permute"]))
    assert all(f">{text}<" in picture for text in ("4 B", "1 B", "9 B", "memory", "traffic", "gather", "permute"))
    assert ">-<" not in picture


def test_a_figure_of_zeros_has_bars_of_no_length() -> None:
    nothing = BarGroup("loops", {"gather": 0.0}, {"gather": "0"})
    assert rows(bars([nothing], ["gather"])) == {("loops", "gather"): 0}


def test_the_reference_has_the_same_colour_everywhere() -> None:
    colours = colour_range(12)
    assert colours[0] == SIDES["reference"] and len(set(colours[:7])) == 7 and len(colours) == 12
