"""Several processes that check the same points in the same order, as one of them sees the others."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Protocol

from samebits.errors import CouldNotRun

SECONDS = 600.0
"""How long the other processes may take to come to an exchange, and a program to run, by default."""


class FailedElsewhere(CouldNotRun):
    """Another process could not do its part of a point, so this one could not either."""


class RunEnded(BaseException):
    """A process is gone, hangs, or is elsewhere: no program that spans the processes can run any more.

    Not an `Exception`, like `KeyboardInterrupt`: what is caught per point must not go on with the next one.
    """


class LockstepGroup(Protocol):
    """This process among the others; the optional room `cluster` connects it with them."""

    number: int
    count: int

    def point(self, words: str) -> AbstractContextManager[None]:
        """Have all processes do one thing; where one of them fails, all do."""

    def reached(self, stage: str) -> None:
        """Note a stage of the work, by which this process is described should it end here."""

    def share(self, name: str, payload: Any) -> list[Any]:
        """Return what each process says, in their order."""

    def end(self, text: str) -> str:
        """End the run for all processes; return the reason that all of them report, which is the first one's."""

    def close(self) -> None:
        """Leave the run: the others no longer wait for this process."""
