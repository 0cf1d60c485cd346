"""Runs chunks in this process, for debuggers and for one-off checks: a crash ends the run."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

from samebits.engine.work import Chunk, Ended, Event, Executor, Finished, Loss, Trouble, Work
from samebits.errors import CouldNotRun
from samebits.host.device_health import device_failure


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
        """Run the chunk; each event comes when it happens.

        Raises:
            CouldNotRun: a device no longer works.
        """
        while self._waiting:
            chunk = self._waiting.popleft()
            for event in self._work.run(chunk.items, chunk.ahead):
                yield chunk.number, event
                if isinstance(event, Finished | Trouble) and (failure := device_failure()):
                    raise CouldNotRun(
                        f"{_words(chunk, event)}: {failure}; what comes after needs a new process and did not run "
                        "(worker processes are replaced)"
                    )
            yield chunk.number, Ended()

    def kill(self, number: int, loss: Loss) -> None:
        """Not possible: this process is the one that runs it."""

    def close(self) -> None:
        """Drop what is cached."""
        self._work.close()


def _words(chunk: Chunk, event: Finished | Trouble) -> str:
    """The item or the pair of an event."""
    if isinstance(event, Trouble):
        return event.pair
    return next(item.words for item in chunk.items if item.key == event.key)
