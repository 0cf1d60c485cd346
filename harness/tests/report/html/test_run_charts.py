"""The charts of runs, rendered: what was planted is in the picture."""

from typing import Any

from samebits.report.html.charts import (
    COLOURS,
    bounds_used,
    clusters_by_step,
    curves,
    distances,
    equal_bits,
    relative_distances,
    svg,
)
from samebits.report.train import bound_rows, distance_rows, headroom_rows, value_rows
from tests.report.html.run_samples import run, trained

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
