"""Runs chunks in this process, for debuggers and for one-off checks: a crash ends the run."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

from samebits.engine.work import Chunk, Ended, Event, Executor, Loss, Work


class InProcess(Executor):
    """One chunk at a time, item by item, here.

    Args:
        work: what is done.
    """

    slots = 1

    def __init__(self, work: Work[Any]) -> None:
        self._work = work
        self._waiting: deque[Chunk] = deque()

    def submit(self, chunk: Chunk) -> None:
        """Have a chunk run at the next call of `events`."""
        self._waiting.append(chunk)

    def events(self, seconds: float) -> Iterator[tuple[int, Event | Ended]]:
        """Run the chunk; each event comes when it happens."""
        while self._waiting:
            chunk = self._waiting.popleft()
            for event in self._work.run(chunk.items, chunk.ahead):
                yield chunk.number, event
            yield chunk.number, Ended()

    def kill(self, number: int, loss: Loss) -> None:
        """Not possible: this process is the one that runs it."""

    def close(self) -> None:
        """Drop what is cached."""
        self._work.close()
