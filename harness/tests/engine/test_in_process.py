"""Items run here, in order, and their rows come at once."""

from __future__ import annotations

import pytest

from samebits.engine.drive import Done, Limits, drive
from samebits.engine.in_process import InProcess
from samebits.errors import CouldNotRun
from samebits.schema.result import Problem
from tests.engine.toy_work import ToyRow, ToyWork, toy_items
from tests.support import failing_device


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


def test_a_failed_device_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """The item has its rows, since they are known; nothing after it can run here."""
    failing_device.mend_after(monkeypatch)
    work, done = ToyWork(), list[Done[ToyRow]]()
    items = toy_items("good", "device", "good")
    with pytest.raises(CouldNotRun, match=r"^item 1: device .* failed: .*; what comes after needs a new process"):
        done.extend(drive(work, items, InProcess(work), limits=Limits(), on_problem=_no_problem))
    assert [one.item for one in done] == items[:2]


def _no_problem(problem: Problem) -> None:
    raise AssertionError(problem)
