"""The curves of training runs: values, distances with their bounds, runs of equal bits, and where they split."""

import math
from dataclasses import replace

import pytest

from samebits.report.html.charts import Split, clusters_by_step, splits
from samebits.report.train import STEP_HEADS, bound_rows, distance_rows, headroom_rows, step_table, value_rows
from tests.report.html.run_samples import run, trained

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
