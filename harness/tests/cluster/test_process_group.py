"""Groups of threads that stand for processes: a failure, a hang and a leave in one of them reach the other."""

import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from samebits.cluster import process_group
from samebits.cluster.process_group import Board, ProcessGroup
from samebits.errors import CouldNotRun
from samebits.host.group import FailedElsewhere, RunEnded


@pytest.fixture
def groups() -> Iterator[tuple[ProcessGroup, ProcessGroup]]:
    board = Board(2)
    both = ProcessGroup(0, 2, board, 60), ProcessGroup(1, 2, board, 60)
    yield both
    for group in both:
        group.close()


def outcomes(*calls: Callable[[], Any]) -> list[Any]:
    """What calls give, or raise, that run beside each other."""

    def outcome(call: Callable[[], Any]) -> Any:
        try:
            return call()
        except (Exception, RunEnded) as error:
            return error

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(outcome, calls))


def test_share_gives_what_each_says(groups: tuple[ProcessGroup, ProcessGroup]) -> None:
    said = outcomes(*(lambda g=group: g.share("hello", g.number) for group in groups))
    assert said == [[0, 1], [0, 1]]


def test_a_failure_is_failed_in_another_process_there(
    groups: tuple[ProcessGroup, ProcessGroup],
) -> None:
    def point(group: ProcessGroup) -> str:
        with group.point("rope: fast"):
            if group.number == 1:
                raise CouldNotRun("no kernel")
            group.agree("compiled")
        return "done"

    here, there = outcomes(*(lambda g=group: point(g) for group in groups))
    assert isinstance(here, FailedElsewhere) and str(here) == "failed in process 1: no kernel"
    assert type(there) is CouldNotRun and str(there) == "no kernel"
    assert outcomes(*(lambda g=group: g.share("next", None) for group in groups)) == [[None, None]] * 2


def test_a_common_failure_is_the_own_error_everywhere(groups: tuple[ProcessGroup, ProcessGroup]) -> None:
    def point(group: ProcessGroup) -> None:
        with group.point("rope: fast"):
            group.agree("compiled", failed=f"no kernel {group.number}")
            raise CouldNotRun(f"no kernel {group.number}")

    assert [str(error) for error in outcomes(*(lambda g=group: point(g) for group in groups))] == [
        "no kernel 0",
        "no kernel 1",
    ]


def test_what_does_not_end_is_abandoned_and_ends_the_run() -> None:
    board = Board(1)
    group, never = ProcessGroup(0, 1, board, 0.5), threading.Event()
    group.begin("rope: fast")
    with pytest.raises(RunEnded) as ended:
        group.watched("running", never.wait)
    assert str(ended.value) == "process 0 did not come out of 'rope: fast: running' within 0.5 s"
    never.set()
    group.close()


def test_what_waits_in_a_collective_ends_with_the_run(
    groups: tuple[ProcessGroup, ProcessGroup],
) -> None:
    board, never = Board(2), threading.Event()
    group = ProcessGroup(0, 2, board, 60)
    threading.Timer(0.3, lambda: board.end("process 1 has ended")).start()
    begin = time.monotonic()
    with pytest.raises(RunEnded, match="process 1 has ended"):
        group.watched("running", never.wait)
    assert time.monotonic() - begin < 50
    never.set()
    group.close()


def test_an_error_of_what_is_watched_is_raised_here(groups: tuple[ProcessGroup, ProcessGroup]) -> None:
    def fails() -> None:
        raise ValueError("in the thread")

    with pytest.raises(ValueError, match="in the thread"):
        groups[0].watched("running", fails)
    assert groups[0].watched("running", lambda: 3) == 3


def test_the_subject_is_what_stands_before_the_colon(groups: tuple[ProcessGroup, ProcessGroup]) -> None:
    groups[0].begin("rope: fast-default")
    assert groups[0].subject == "rope"


class Silent(Board):
    """A board that answers once, as one of a process that is stopped, or that holds Python's lock, later."""

    def __init__(self) -> None:
        super().__init__(2)
        self.never, self.asked = threading.Event(), 0

    def sign(self, number: int, place: tuple[str, int] | None, stage: str) -> str | None:
        self.asked += 1
        if self.asked > 1:
            self.never.wait()
        return None


def _giving_up(monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, list[str]]:
    """Set when a group would end this process, with what it would say."""
    given_up, said = threading.Event(), list[str]()

    def give_up(text: str) -> None:
        said.append(text)
        given_up.set()

    monkeypatch.setattr(ProcessGroup, "_give_up", staticmethod(give_up))
    return given_up, said


def test_a_board_that_answers_no_more_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    given_up, said = _giving_up(monkeypatch)
    monkeypatch.setattr(process_group, "SILENCE", 0.2)
    monkeypatch.setattr(process_group, "BEAT", 0.05)
    board = Silent()
    group = ProcessGroup(1, 2, board, 60)
    assert given_up.wait(30)
    assert said[0] == "process 0 has not answered for 0.2 s; this was at 'starting'"
    vars(group)["_closed"].set()
    board.never.set()


def test_a_process_that_hangs_in_python_ends_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    given_up, said = _giving_up(monkeypatch)
    monkeypatch.setattr(process_group, "BEAT", 0.05)
    group = ProcessGroup(0, 1, Board(1), 0.1)
    assert given_up.wait(30)
    assert re.fullmatch(r"process 0 hangs at 'starting' for \d+ s", said[0])
    group.close()
