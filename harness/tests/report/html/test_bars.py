"""Bars: one for each figure of each thing, with its number beside it; what has no figure has no bar."""

from typing import Any

import pytest

from samebits.report.html.charts import SIDES, BarGroup, bars, colour_range, size_groups, size_text, svg
from tests.report.html.run_samples import side

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


def test_figures_that_nothing_has_are_not_drawn() -> None:
    fields = {"temp_bytes": "memory", "wire_bytes": "communication"}
    groups = size_groups({"a": side(wire_bytes=0), "b": side(wire_bytes=None, temp_bytes=None)}, fields)
    assert groups == [BarGroup("memory", {"a": 7_026_100_000, "b": None}, {"a": "7.03 GB", "b": "–"})]  # noqa: RUF001


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (None, "–"),  # noqa: RUF001
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.00 KB"),
        (16_940_000, "16.9 MB"),
        (7_026_100_000, "7.03 GB"),
        (125e9, "125 GB"),
    ],
)
def test_sizes_are_read_at_a_glance(size: float | None, text: str) -> None:
    assert size_text(size) == text
