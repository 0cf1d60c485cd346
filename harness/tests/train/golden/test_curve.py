"""Recorded and today's numbers beside each other: every change is where it was planted, and nothing else is one."""

import math
from dataclasses import replace

import msgspec
import pytest

from samebits.report.document import to_json
from samebits.train.distance import FAR
from samebits.train.golden.check import CheckedGolden, check_golden
from samebits.train.golden.curve import MOST_ARRAYS, GoldenCurveStep
from tests.support.golden_samples import ELSEWHERE, HERE, LOSS_BOUND, golden, run_record


def test_equal_runs_are_zero_apart_at_every_step() -> None:
    checked = check_golden(golden(), run_record(), HERE)
    assert [step.step for step in checked.steps] == list(range(1, 21))
    assert all(step.loss == step.recorded_loss and step.grad_norm == step.recorded_grad_norm for step in checked.steps)
    assert {(step.loss_ulps, step.loss_bound) for step in checked.steps} == {(0, 0)}
    assert (checked.changed, checked.changed_count) == ((), 0)


def test_a_moved_loss_is_at_its_step() -> None:
    checked = check_golden(golden(), run_record(nudge={7: 3}), HERE)
    assert {step.step: step.loss_ulps for step in checked.steps if step.loss_ulps} == {7: 3}
    assert checked.changed == (), "a loss is not an array"


def test_an_array_is_named_at_its_first_step() -> None:
    checked = check_golden(golden(), run_record(scale={1: 1.25, 10: 1.5}), HERE)
    (change,) = [change for change in checked.changed if change.leaf == "gradient/w"]
    assert (change.step, change.bound) == (1, 0) and change.relative == pytest.approx(0.2)
    assert [step.step for step in checked.steps if step.grad_norm != step.recorded_grad_norm] == [1, 10]


def test_elsewhere_the_bounds_are_those_of_the_evidence() -> None:
    checked = check_golden(golden(), run_record(nudge={20: 2}, scale={1: 1 + 1e-7, 10: 2}), ELSEWHERE)
    assert {step.loss_bound for step in checked.steps} == {LOSS_BOUND}
    assert [change.step for change in checked.changed] == [10], "what is within its bound has not changed"
    assert checked.changed[0].bound > 0


def test_a_run_that_ends_early() -> None:
    run = run_record()
    checked = check_golden(golden(), replace(run, steps=run.steps[:-2]), HERE)
    assert [step.loss for step in checked.steps[-2:]] == [None, None] and checked.steps[-1].recorded_loss is not None
    assert checked.steps[-1].loss_ulps == FAR


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_is_read_again(value: float) -> None:
    """JSON has no such number."""
    checked = check_golden(golden(), run_record(loss={3: value}), HERE)
    assert (checked.steps[2].loss, checked.steps[2].loss_ulps) == (None, FAR)
    steps = msgspec.json.decode(to_json(checked))["steps"]
    assert msgspec.convert(steps, tuple[GoldenCurveStep, ...]) == checked.steps


def test_many_arrays_are_counted_and_the_first_are_listed() -> None:
    leaves = tuple(f"w{number}" for number in range(2 * MOST_ARRAYS))
    checked = check_golden(golden(), run_record(leaves=leaves), HERE)
    assert len(checked.changed) == MOST_ARRAYS < checked.changed_count


def test_what_was_not_run_has_no_curve() -> None:
    assert CheckedGolden(name="m/r", status="not run", message="no").steps == ()
