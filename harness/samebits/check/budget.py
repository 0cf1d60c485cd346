"""The time in which the evidence on a point is gathered: what is not reached in it is said, and never called more."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from samebits.host.time_limit import OutOfTime, limited

R = TypeVar("R")
Otherwise = TypeVar("Otherwise")

OUT_OF_TIME = "out of time"

FORMULAS_SHARE = 0.5
"""The part of the time left that formulas may take: in the rest, rounding is measured."""


@dataclass(frozen=True)
class Budget:
    """The time for the evidence on a point, and what was not reached in it of one leaf.

    Args:
        seconds: how long it is; None has no end.
        end: when it is over, by `time.monotonic`.
        unreached: the steps that were not reached, in words.
        over: those of the point that had their share of the time, and are not tried again for another leaf.
    """

    seconds: float | None = None
    end: float = math.inf
    unreached: list[str] = field(default_factory=list)
    over: set[str] = field(default_factory=set)

    @classmethod
    def from_now(cls, seconds: float | None) -> Budget:
        """Return the budget of a point whose evidence is gathered from now on."""
        return cls() if seconds is None else cls(seconds, time.monotonic() + seconds)

    def for_leaf(self) -> Budget:
        """Return the same time, of which nothing is missed yet."""
        return replace(self, unreached=[])

    def within(self, what: str, step: Callable[[], R], otherwise: Otherwise, share: float = 1.0) -> R | Otherwise:
        """Return what a step gives, or something else where its time is over.

        Args:
            what: the step, in words.
            step: which may be ended between two equations or executions.
            otherwise: what stands for its result.
            share: the part of the time left that it may take.
        """
        if self.seconds is None:
            return step()
        now = time.monotonic()
        try:
            with limited(-math.inf if what in self.over else now + share * (self.end - now)):
                return step()
        except OutOfTime:
            self.over.add(what)
            if what not in self.unreached:
                self.unreached.append(what)
            return otherwise

    @property
    def missed(self) -> str | None:
        """What was not reached, in words."""
        return f"not reached within {self.seconds:g} s: {', '.join(self.unreached)}" if self.unreached else None
