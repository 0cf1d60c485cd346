"""Items run here, in order, and their rows come at once."""

from __future__ import annotations

from samebits.engine.drive import Limits, drive
from samebits.engine.in_process import InProcess
from samebits.schema.result import Problem
from tests.engine.toy_work import ToyRow, ToyWork, toy_items


def test_all_items_run_in_order() -> None:
    work, items = ToyWork(ahead=2), toy_items(*["good"] * 70)
    done = list(drive(work, items, InProcess(work), limits=Limits(), on_problem=_no_problem))
    assert [one.rows for one in done] == [(ToyRow(key=item.key, value=len(item.key)),) for item in items]


def test_a_pair_that_cannot_run_is_a_problem_once() -> None:
    work, problems = ToyWork(), list[Problem]()
    items = [*toy_items(*["trouble"] * 70, pair="bad"), *toy_items("good", pair="fine")]
    done = list(drive(work, items, InProcess(work), limits=Limits(), on_problem=problems.append))
    assert [one.item.pair for one in done] == ["fine"]
    assert problems == [Problem(pair="bad", message="cannot be declared", exit_code=2)]


def _no_problem(problem: Problem) -> None:
    raise AssertionError(problem)
