"""Runs chunks in this process, for debuggers and for one-off checks: a crash ends the run."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, NoReturn

from samebits.engine.work import Chunk, Ended, Event, Executor, Finished, ProcessExit, Started, Trouble, Work
from samebits.errors import CouldNotRun
from samebits.host.device_health import device_failure
from samebits.host.group import LockstepGroup, RunEnded


class InProcess(Executor):
    """One chunk at a time, item by item, here.

    Args:
        work: what is done.
        group: the processes that run every item together; None where this one is alone.
    """

    slots = 1

    def __init__(self, work: Work[Any], group: LockstepGroup | None = None) -> None:
        self._work, self._group = work, group
        self._waiting: deque[Chunk] = deque()

    def submit(self, chunk: Chunk) -> None:
        """Have a chunk run at the next call of `events`."""
        self._waiting.append(chunk)

    def events(self, seconds: float) -> Iterator[tuple[int, Event | Ended]]:
        """Run the chunk; each event comes when it happens.

        Raises:
            CouldNotRun: a device no longer works.
            RunEnded: the same where several processes run together.
        """
        while self._waiting:
            chunk = self._waiting.popleft()
            under_way: list[str] = []
            for event in self._work.events(chunk.items, chunk.ahead):
                if isinstance(event, Started):
                    under_way.append(event.key)
                if isinstance(event, Finished | Trouble) and (failure := device_failure()):
                    self._end(_words(chunk, event, under_way), failure)
                if isinstance(event, Finished):
                    under_way = [key for key in under_way if key != event.key]
                yield chunk.number, event
            yield chunk.number, Ended()

    def _end(self, words: str, failure: str) -> NoReturn:
        """End the run before a result counts that came with it."""
        if self._group is not None:
            raise RunEnded(self._group.end(f"process {self._group.number}: {words}: {failure}"))
        raise CouldNotRun(
            f"{words}: {failure}; it and what comes after need a new process (without --in-process, they get one)"
        )

    def kill(self, number: int, loss: ProcessExit) -> None:
        """Not possible: this process is the one that runs it."""

    def close(self) -> None:
        """Drop what is cached."""
        self._work.close()


def _words(chunk: Chunk, event: Finished | Trouble, under_way: list[str]) -> str:
    """Return what was under way: the pair, or the item and those that had been traced ahead."""
    if isinstance(event, Trouble):
        return event.pair
    words = next(item.words for item in chunk.items if item.key == event.key)
    ahead = [item.words for item in chunk.items if item.key in under_way and item.key != event.key]
    return f"{words} (or what was traced ahead, from {ahead[0]} on)" if ahead else words
