"""How long the rest of a run takes, from the work that is done: items that are alike cost alike, and others do not.

The cost of an item that is still to be done is the mean of those of its class that are done; of a class of which none
is, the mean of all. The rest of the work, divided by the work that was done per second so far, is the time left. So a
thousand cheap items behind a few expensive ones are not taken for expensive, several processes are accounted for, and
what an earlier run remembers counts for nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

SOON = 2.0
"""Seconds after which an estimate is shown: before, starts of processes are most of what was measured."""


@dataclass(slots=True)
class _Class:
    total: int
    done: int = 0
    measured: int = 0
    seconds: float = 0.0


class WorkLeft:
    """The work of a run.

    Args:
        totals: how many items each class has.
    """

    def __init__(self, totals: Mapping[str, int]) -> None:
        self._classes = {name: _Class(total) for name, total in totals.items()}

    @property
    def total(self) -> int:
        """How many items there are."""
        return sum(known.total for known in self._classes.values())

    @property
    def done(self) -> int:
        """How many are done."""
        return sum(known.done for known in self._classes.values())

    def add(self, name: str, seconds: float | None, units: int = 1) -> None:
        """An item is done.

        Args:
            name: its class.
            seconds: of work; None where nothing was done, as for an item that an earlier run remembers.
            units: how many items it stands for.
        """
        known = self._classes.setdefault(name, _Class(0))
        known.done += units
        known.total = max(known.total, known.done)
        if seconds is not None:
            known.measured += units
            known.seconds += seconds

    def expect(self, name: str, left: int) -> None:
        """So many items of a class are still to be done, which a search finds out only as it runs."""
        known = self._classes.setdefault(name, _Class(0))
        known.total = known.done + left

    @property
    def share(self) -> float:
        """How much of the work is done, from 0 to 1; by counts as long as nothing was measured."""
        mean = self._mean()
        if mean is None:
            return self.done / self.total if self.total else 0.0
        rest = self._rest(mean)
        done = sum(known.done * self._cost(known, mean) for known in self._classes.values())
        return done / (done + rest) if done + rest else 1.0

    def left(self, elapsed: float) -> float | None:
        """Seconds until all is done, by the clock; None where nothing is known yet.

        Args:
            elapsed: seconds since the first item began.
        """
        mean, worked = self._mean(), sum(known.seconds for known in self._classes.values())
        if mean is None or elapsed < SOON or not worked:
            return None
        return self._rest(mean) * elapsed / worked

    def _mean(self) -> float | None:
        """The mean cost of an item that was measured."""
        measured = sum(known.measured for known in self._classes.values())
        return sum(known.seconds for known in self._classes.values()) / measured if measured else None

    def _rest(self, mean: float) -> float:
        return sum((known.total - known.done) * self._cost(known, mean) for known in self._classes.values())

    def _cost(self, known: _Class, mean: float) -> float:
        return known.seconds / known.measured if known.measured else mean


def time_in_words(seconds: float) -> str:
    """A time as a person reads it: `8 s`, `3 min`, `2 h 10 min`."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 100:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min"
