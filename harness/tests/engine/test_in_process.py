"""Items run here, in order, and their rows come at once."""

import pytest

from samebits.cluster.process_group import Board, ProcessGroup
from samebits.engine.drive import Done, Limits, drive
from samebits.engine.run_work import InProcess
from samebits.errors import CouldNotRun
from samebits.host.group import RunEnded
from samebits.schema.result import Problem
from tests.engine.toy_work import ToyRow, ToyWork, toy_items
from tests.support import failing_device


def in_small_chunks(ahead: int = 0) -> ToyWork:
    """A work of which a few items are several chunks, as hundreds are of others."""
    work = ToyWork(ahead=ahead)
    work.chunk = 2
    return work


def test_all_items_run_in_order() -> None:
    work, items = in_small_chunks(ahead=2), toy_items(*["good"] * 7)
    done = list(drive(work, items, InProcess(work), limits=Limits(), on_problem=_no_problem))
    assert [one.rows for one in done] == [(ToyRow(key=item.key, value=len(item.key)),) for item in items]


def test_a_pair_that_cannot_run_is_a_problem_once() -> None:
    work, problems = in_small_chunks(), list[Problem]()
    items = [*toy_items(*["trouble"] * 7, pair="bad"), *toy_items("good", pair="fine")]
    done = list(drive(work, items, InProcess(work), limits=Limits(), on_problem=problems.append))
    assert [one.item.pair for one in done] == ["fine"]
    assert problems == [Problem(pair="bad", message="cannot be declared", exit_code=2)]


def test_a_failed_device_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the rows of the item count: they would be taken for good when the run is resumed."""
    failing_device.mend_after(monkeypatch)
    work, done = ToyWork(), list[Done[ToyRow]]()
    items = toy_items("good", "device", "good")
    with pytest.raises(CouldNotRun, match=r"^item 1: device .* failed: .*; it and what comes after need a new process"):
        done.extend(drive(work, items, InProcess(work), limits=Limits(), on_problem=_no_problem))
    assert [one.item for one in done] == items[:1]


def test_what_was_traced_ahead_may_be_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    failing_device.mend_after(monkeypatch)
    work = ToyWork(ahead=1)
    with pytest.raises(CouldNotRun, match=r"^item 0 \(or what was traced ahead, from item 1 on\): device "):
        list(drive(work, toy_items("device", "good"), InProcess(work), limits=Limits(), on_problem=_no_problem))


def test_of_several_processes_the_run_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a process is gone: process 0 reports what it has."""
    failing_device.mend_after(monkeypatch)
    board = Board(2)
    group = ProcessGroup(1, 2, board)
    executor = InProcess(ToyWork(), group)
    try:
        with pytest.raises(RunEnded, match=r"^process 1: item 0: device .* failed: ") as ended:
            list(drive(ToyWork(), toy_items("device"), executor, limits=Limits(), on_problem=_no_problem))
    finally:
        group.close()
    assert board.ended() == str(ended.value), "the others are told, and name the device too"


def _no_problem(problem: Problem) -> None:
    raise AssertionError(problem)
