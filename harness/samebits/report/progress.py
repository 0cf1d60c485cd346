"""A bar with the time left; nothing is drawn, and no thread is started, where no terminal reads it.

The cost of an item that is still to be done is the mean of those of its class that are done; of a class of which none
is, the mean of all. The rest of the work, divided by the work that was done per second so far, is the time left. So a
thousand cheap items behind a few expensive ones are not taken for expensive, several processes are accounted for, and
what an earlier run remembers counts for nothing.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

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
        """Return how many items there are."""
        return sum(known.total for known in self._classes.values())

    @property
    def done(self) -> int:
        """Return how many are done."""
        return sum(known.done for known in self._classes.values())

    def add(self, name: str, seconds: float | None, units: int = 1) -> None:
        """Count an item as done."""
        known = self._classes.setdefault(name, _Class(0))
        known.done += units
        known.total = max(known.total, known.done)
        if seconds is not None:
            known.measured += units
            known.seconds += seconds

    def expect(self, name: str, left: int) -> None:
        """Expect so many more items of a class, which a search finds out only as it runs."""
        known = self._classes.setdefault(name, _Class(0))
        known.total = known.done + left

    @property
    def share(self) -> float:
        """Return how much of the work is done, from 0 to 1; by counts as long as nothing was measured."""
        mean = self._mean()
        if mean is None:
            return self.done / self.total if self.total else 0.0
        rest = self._rest(mean)
        done = sum(known.done * self._cost(known, mean) for known in self._classes.values())
        return done / (done + rest) if done + rest else 1.0

    def left(self, elapsed: float) -> float | None:
        """Return seconds until all is done, by the clock; None where nothing is known yet."""
        mean, worked = self._mean(), sum(known.seconds for known in self._classes.values())
        if mean is None or elapsed < SOON or not worked:
            return None
        return self._rest(mean) * elapsed / worked

    def _mean(self) -> float | None:
        """Return the mean cost of an item that was measured."""
        measured = sum(known.measured for known in self._classes.values())
        return sum(known.seconds for known in self._classes.values()) / measured if measured else None

    def _rest(self, mean: float) -> float:
        return sum((known.total - known.done) * self._cost(known, mean) for known in self._classes.values())

    def _cost(self, known: _Class, mean: float) -> float:
        return known.seconds / known.measured if known.measured else mean


def time_in_words(seconds: float) -> str:
    """Return a time as a person reads it: `8 s`, `3 min`, `2 h 10 min`."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 100:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min"


PER_SECOND = 4
"""Drawings; more often costs more than it shows."""

T = TypeVar("T")

_LONGEST = 60
"""Characters of what is under way."""


class ProgressBar:
    """The work of a run as a bar, for the duration of a `with` block.

    Args:
        totals: how many items each class has; empty where that is unknown: then it shows what was done, and no time.
        clock: seconds; tests give their own.
    """

    def __init__(
        self,
        to: Console,
        what: str,
        totals: Mapping[str, int] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.work = WorkLeft(totals or {})
        self._clock = clock
        self._began = self._last = clock()
        self._words, self._failed, self._ends = "", 0, bool(totals)
        self._bar = (
            Progress(
                SpinnerColumn(),
                TextColumn("{task.description}", markup=False),
                BarColumn(bar_width=30),
                TextColumn("{task.fields[state]}", markup=False),
                console=to,
                refresh_per_second=PER_SECOND,
                transient=True,
                # What is printed meanwhile goes above the bar; into a file that another program reads it goes there.
                redirect_stdout=sys.stdout.isatty(),
                redirect_stderr=sys.stderr.isatty(),
            )
            if to.is_terminal
            else None
        )
        if self._bar is not None:
            self._task = self._bar.add_task(what, total=1.0 if totals else None, state="")

    def __enter__(self) -> ProgressBar:
        if self._bar is not None:
            self._began = self._last = self._clock()
            self._draw()
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def add(self, name: str, seconds: float | None, *, words: str = "", failed: bool = False, units: int = 1) -> None:
        """Count an item as done."""
        self.work.add(name, seconds, units)
        self._last = self._clock()
        self._failed += failed
        self._words = words or self._words
        self._draw()

    def add_next(self, name: str, *, words: str = "", recalled: bool = False, units: int = 1) -> None:
        """Count an item as done, whose work is the time since the one before it was."""
        self.add(name, None if recalled else self._clock() - self._last, words=words, units=units)

    def say(self, words: str) -> None:
        """Show what is under way."""
        self._words = words
        self._draw()

    def expect(self, name: str, left: int) -> None:
        """Expect so many more items, by the estimate of a search."""
        self._ends = True
        self.work.expect(name, left)
        self._draw()

    def state(self) -> str:
        """Return what stands behind the bar."""
        done, total = self.work.done, self.work.total
        left = self.work.left(self._clock() - self._began)
        parts = [f"{done} of {total}" if self._ends else f"{done} done" if done else ""]
        parts.append(f"{self._failed} failed" if self._failed else "")
        parts.append(f"about {time_in_words(left)} left" if left is not None and done < total else "")
        parts.append(self._words[:_LONGEST])
        return ", ".join(filter(None, parts))

    def _draw(self) -> None:
        if self._bar is not None:
            self._bar.update(
                self._task,
                total=1.0 if self._ends else None,
                completed=self.work.share if self._ends else 0.0,
                state=self.state(),
            )


def tracked(items: Sequence[T], what: str, size: Callable[[T], int] = lambda item: 1) -> Iterator[T]:
    """Yield items one after the other, with a bar on stderr where that is a terminal, for loops that print results."""
    with ProgressBar(Console(stderr=True), what, {what: sum(size(item) for item in items)}) as bar:
        for item in items:
            bar.say(str(getattr(item, "name", item)))
            yield item
            bar.add_next(what, units=size(item))
