"""What all charts share."""

import math
from dataclasses import replace
from typing import Any

import altair
import pytest

from samebits.report.html.charts import (
    COLOURS,
    SIDES,
    BarGroup,
    Split,
    bars,
    bounds_used,
    bundle,
    clusters_by_step,
    colour_range,
    curves,
    distances,
    equal_bits,
    relative_distances,
    size_groups,
    size_text,
    spec,
    splits,
    svg,
)
from samebits.report.train import STEP_HEADS, bound_rows, distance_rows, headroom_rows, step_table, value_rows
from samebits.schema.result import VERDICTS
from tests.report.html.run_samples import run, side, trained


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


# --- bars ------------------------------------------------------------------------------------------------------------


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


# --- training runs ---------------------------------------------------------------------------------------------------


DOCUMENT = trained(run("base"), run("other", nudge={3: 40}, scale={2: 1.5}), noise=1)
NAMES = ["base", "other"]


def values(specification: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of all layers, however Altair names them."""
    named = specification.get("datasets", {}).values()
    own = [part.get("data", {}).get("values", []) for part in (specification, *specification.get("layer", []))]
    return [row for rows in (*named, *own) for row in rows]


def test_curves_name_their_runs() -> None:
    picture = svg(curves(value_rows(DOCUMENT), "loss", "the loss", NAMES))
    assert all(f">{text}<" in picture for text in ("base", "other", "the loss", "step"))


def test_distances_hold_the_envelope_and_the_first_split() -> None:
    made = distances(distance_rows(DOCUMENT), bound_rows(DOCUMENT), NAMES, first=(3, "first split: loss"))
    rows = values(made)
    assert {row["step"]: row["ulps"] for row in rows if "ulps" in row} == {1: 0, 2: 0, 3: 40, 4: 0}
    assert {(row["noise"], row["bound"]) for row in rows if "bound" in row} == {(1, 4)}
    assert ">first split: loss<" in svg(made)
    assert "first split" not in svg(distances(distance_rows(DOCUMENT), [], NAMES, first=None))


def test_a_relative_distance_of_zero_has_no_point() -> None:
    made = relative_distances(distance_rows(DOCUMENT), "norm", "norm", NAMES)
    assert [row["step"] for row in values(made)] == [2]
    assert svg(made).startswith("<svg")


def test_what_is_beyond_its_bound_has_another_colour() -> None:
    picture = svg(bounds_used(headroom_rows(DOCUMENT)))
    marks = [part for part in picture.split("<path") if 'aria-roledescription="bar"' in part]
    assert len(marks) == 1 and COLOURS["different"] in marks[0]


def test_equal_bits_have_equal_numbers() -> None:
    made = equal_bits(clusters_by_step(DOCUMENT.results), NAMES)
    numbers = {(row["run"], row["step"]): row["number"] for row in values(made)}
    assert [numbers["other", step] for step in range(1, 5)] == [1, 2, 2, 2]
    assert [row["step"] for row in values(made) if row["split"]] == [2]


def test_distances_have_a_key_of_the_runs_that_are_compared() -> None:
    """The lines are coloured: without a key nobody can tell which run is which."""
    for made in (
        distances(distance_rows(DOCUMENT), bound_rows(DOCUMENT), NAMES, first=None),
        relative_distances(distance_rows(DOCUMENT), "norm", "norm", NAMES),
    ):
        picture = svg(made)
        assert ">other<" in picture
        assert ">base<" not in picture, "what the others are held against has no line"


# --- rows of training runs -------------------------------------------------------------------------------------------


BASE, SAME = run("base"), run("same")
LATE = run("late", nudge={3: 1})
LATE_TOO = run("late_too", nudge={3: 1})
ARRAY = run("array", scale={2: 1.5})


def test_every_value_of_every_run_is_there() -> None:
    rows = value_rows(trained(BASE, LATE))
    assert [(row["run"], row["step"]) for row in rows] == [
        (name, step) for name in ("base", "late") for step in range(1, 5)
    ]
    assert [row["loss"] for row in rows] == [step.loss for made in (BASE, LATE) for step in made.steps]
    assert [row["norm"] for row in rows[:4]] == [step.grad_norm for step in BASE.steps]


def test_the_table_has_the_values_of_the_curves() -> None:
    document = trained(BASE, LATE)
    table = [dict(zip(STEP_HEADS, row, strict=True)) for row in step_table(document)]
    for cells, row in zip(table, value_rows(document), strict=True):
        assert (cells["run"], int(cells["step"]), cells["exactly"]) == (row["run"], row["step"], row["exactly"])
        assert float(cells["loss"]) == pytest.approx(row["loss"], rel=1e-8)


def test_a_loss_that_is_not_finite_is_left_out() -> None:
    rows = value_rows(trained(BASE, run("nan", loss={2: math.nan})))
    assert [row["loss"] is None for row in rows] == [False] * 5 + [True] + [False] * 2


def test_distances_are_those_that_were_planted() -> None:
    rows = distance_rows(trained(BASE, LATE, ARRAY))
    assert [row["ulps"] for row in rows if row["run"] == "late"] == [0, 0, 1, 0]
    assert [row["step"] for row in rows if row["run"] == "late" and row["first"]] == [3]
    norms = [row["norm"] for row in rows if row["run"] == "array"]
    assert [bool(norm) for norm in norms] == [False, True, False, False]


def test_a_document_of_before_has_its_distances_from_the_runs() -> None:
    document = trained(BASE, LATE)
    before = tuple(replace(each, loss_distances=(), loss_bounds=()) for each in document.comparisons)
    assert distance_rows(replace(document, comparisons=before)) == distance_rows(document)


def test_runs_of_another_revision_have_distances() -> None:
    document = trained(BASE, LATE)
    comparison = replace(document.comparisons[0], a="late@main", b="late")
    rows = distance_rows(replace(document, results=(LATE,), comparisons=(comparison,)))
    assert [row["ulps"] for row in rows] == [0, 0, 1, 0] and {row["norm"] for row in rows} == {None}


def test_the_envelope_is_at_every_step() -> None:
    rows = bound_rows(trained(BASE, noise=4))
    assert rows == [{"step": step, "noise": 4, "bound": 9} for step in range(1, 5)]
    assert bound_rows(trained(BASE, envelope=None)) == []


def test_how_much_of_a_bound_is_used() -> None:
    document = trained(BASE, SAME, run("far", nudge={2: 8}), noise=1)
    (row,) = headroom_rows(document)
    assert (row["pair"], row["used"], row["leaf"], row["verdict"]) == ("far beside base", 2.0, "loss", "different")


def test_equal_bits_are_equal_up_to_the_split() -> None:
    cells = clusters_by_step([BASE, LATE, SAME, LATE_TOO])
    leaders = {
        name: [cell["group"] for cell in cells if cell["run"] == name] for name in ("base", "late", "same", "late_too")
    }
    assert leaders["base"] == leaders["same"] == ["base"] * 4
    assert leaders["late"] == leaders["late_too"] == ["base", "base", "late", "late"]
    parted = [(cell["run"], cell["step"], cell["group"]) for cell in cells if cell["split"]]
    assert parted == [("late", 3, "late"), ("late_too", 3, "late")]


def test_bits_that_come_together_again_stay_split() -> None:
    """One equal step after a split is no equal run."""
    leaders = [cell["group"] for cell in clusters_by_step([BASE, LATE]) if cell["run"] == "late"]
    assert leaders[3] == "late"


def test_a_split_names_the_array() -> None:
    assert splits([BASE, SAME, LATE, ARRAY]) == [
        Split("array", 2, "gradient/w", "base"),
        Split("late", 3, "loss", "base"),
    ]


def test_runs_that_never_part_and_no_runs_have_no_split() -> None:
    assert splits([BASE, SAME]) == splits([BASE]) == splits([]) == []


def test_a_shorter_run_ends_early() -> None:
    short = replace(SAME, config="short", steps=SAME.steps[:2])
    assert [cell["step"] for cell in clusters_by_step([BASE, short]) if cell["run"] == "short"] == [1, 2]
