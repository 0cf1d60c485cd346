"""How many processes the driver uses: one for a few items, unless they take longer than another process to start."""

from collections.abc import Iterator

import pytest

from samebits.engine.drive import FEW, Limits, drive
from samebits.engine.work import Chunk, Ended, Event, Executor, ProcessExit, Work
from samebits.schema.result import Problem
from tests.engine.toy_work import ToyRow, ToyWork, toy_items


class TwoSlots(Executor):
    """Two processes in simulated time; each item takes some seconds."""

    slots = 2

    def __init__(self, work: Work[ToyRow], seconds: float, head_start: float) -> None:
        self.head_start = head_start
        self.time, self.most = 0.0, 0
        self._work, self._seconds = work, seconds
        self._running: dict[int, tuple[float, Chunk]] = {}

    def submit(self, chunk: Chunk) -> None:
        """Start a chunk."""
        self._running[chunk.number] = self.time + self._seconds * len(chunk.items), chunk
        self.most = max(self.most, len(self._running))

    def events(self, seconds: float) -> Iterator[tuple[int, Event | Ended]]:
        """Let time pass; what ends until then has done its items."""
        self.time += seconds
        for number, (end, chunk) in list(self._running.items()):
            if end <= self.time:
                del self._running[number]
                for event in self._work.run(chunk.items, chunk.ahead):
                    yield number, event
                yield number, Ended()

    def kill(self, number: int, loss: ProcessExit) -> None:
        """Nothing here takes too long."""
        raise AssertionError(loss)

    def close(self) -> None:
        """Nothing is open."""


@pytest.mark.parametrize(
    ("items", "seconds", "head_start", "most"),
    [
        (2, 0.3, 3.0, 1),
        (FEW, 0.3, 3.0, 1),
        (2, 60.0, 3.0, 2),  # long items do not wait for each other
        (FEW + 1, 0.3, 3.0, 2),
        (2, 0.3, 0.0, 2),
    ],
)
def test_a_few_short_items_are_done_by_one_process(items: int, seconds: float, head_start: float, most: int) -> None:
    work = ToyWork()
    executor = TwoSlots(work, seconds, head_start)
    waiting = [item for number in range(items) for item in toy_items("good", pair=f"toy{number}")]
    done = drive(work, waiting, executor, limits=Limits(), on_problem=_no_problem, clock=lambda: executor.time)
    assert sorted(one.item.key for one in done) == sorted(item.key for item in waiting)
    assert executor.most == most


def _no_problem(problem: Problem) -> None:
    raise AssertionError(problem)
