"""The curves of goldens as rows: both runs at every step, their distance, and its bound."""

import math
from dataclasses import replace

from samebits.report.golden import (
    STEP_HEADS,
    bound_rows,
    distance_rows,
    step_table,
    used_rows,
    value_rows,
)
from samebits.train.golden.check import check_golden
from tests.support.golden_samples import ELSEWHERE, HERE, LOSS_BOUND, golden, run_record

NAMES = ("recorded", "today")
MOVED = check_golden(golden(), run_record(nudge={5: 3}), ELSEWHERE)


def test_both_runs_are_at_every_step() -> None:
    rows = value_rows(MOVED.steps, NAMES)
    assert len(rows) == 40 and {row["run"] for row in rows} == set(NAMES)
    differing = {row["step"] for row in rows if row["run"] == "today"} & {
        step.step for step in MOVED.steps if step.loss != step.recorded_loss
    }
    assert differing == {5}


def test_the_first_step_with_another_loss_is_marked() -> None:
    rows = distance_rows(MOVED.steps, NAMES)
    assert [(row["step"], row["ulps"]) for row in rows if row["ulps"]] == [(5, 3)]
    assert [row["step"] for row in rows if row["first"]] == [5]


def test_bounds_are_there_where_bits_may_differ() -> None:
    assert {row["bound"] for row in bound_rows(MOVED.steps)} == {LOSS_BOUND}
    assert bound_rows(check_golden(golden(), run_record(nudge={5: 3}), HERE).steps) == []


def test_the_share_of_the_bound() -> None:
    (row,) = used_rows([MOVED])
    assert (row["used"], row["leaf"], row["verdict"]) == (3 / LOSS_BOUND, "loss, step 5", "rounding")
    assert used_rows([check_golden(golden(), run_record(), HERE)]) == []


def test_the_table_tells_neighbouring_numbers_apart() -> None:
    table = step_table(MOVED.steps)
    assert all(len(row) == len(STEP_HEADS) for row in table)
    assert [row[0] for row in table if row[1] != row[2]] == ["5"] and table[4][3] == "3"


def test_a_number_that_is_none_is_said() -> None:
    checked = check_golden(golden(), run_record(loss={2: math.nan}), HERE)
    assert step_table(checked.steps)[1][2:4] == ["none, or not finite", "not comparable"]
    run = run_record()
    short = check_golden(golden(), replace(run, steps=run.steps[:-1]), HERE)
    assert step_table(short.steps)[-1][2:4] == ["none, or not finite", "not comparable"]
