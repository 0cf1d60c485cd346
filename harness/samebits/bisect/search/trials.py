"""Points judged once, remembered, counted; both ends first."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from samebits.bisect.search.journal import Journal
from samebits.bisect.search.judgement import Judgement, Outcome, ambiguous, together
from samebits.errors import CouldNotRun, RequestError

P = TypeVar("P")

Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class TriedPoint:
    """One row of the table of points tried; published, so keys keep their meaning.

    Args:
        number: in order.
        point: as a person reads it.
        outcome, signature, detail: what was found.
        looks: how often the point was run.
        remembered: whether all of them were in the journal.
        seconds: of this search's own runs.
    """

    number: int
    point: str
    outcome: Outcome
    signature: str
    detail: str
    looks: int
    remembered: bool
    seconds: float


class NothingFails(RequestError):
    """The bad end passes: there is nothing to search for."""


class Trials(Generic[P]):
    """A judge with a memory.

    Args:
        judge: looks at one point.
        key: what the judgement depends on, as text; points with one key are run once.
        label: a point as a person reads it.
        journal: keeps looks on disk, if given.
        repeat: how often each point is run; looks that disagree make it ambiguous.
        say: told what is under way.
    """

    def __init__(
        self,
        judge: Callable[[P], Judgement],
        *,
        key: Callable[[P], str] = str,
        label: Callable[[P], str] = str,
        journal: Journal | None = None,
        repeat: int = 1,
        say: Say = lambda text: None,
    ) -> None:
        self._judge, self._key, self._label, self._journal, self._say = judge, key, label, journal, say
        self.repeat = repeat
        self.signature: str | None = None
        self._looks: dict[str, list[Judgement]] = {} if journal is None else journal.looks
        self._rows: dict[str, TriedPoint] = {}

    @property
    def tried(self) -> list[TriedPoint]:
        """One row per point, in order."""
        return list(self._rows.values())

    @property
    def runs(self) -> int:
        """Points that were run; one of which the journal knew counts too, since some search ran it."""
        return len(self._rows)

    @property
    def repeats(self) -> int:
        """Runs of points that had been run before."""
        return sum(row.looks - 1 for row in self._rows.values())

    def ends(self, good: P, bad: P) -> Judgement:
        """Verify and repeat both ends; the failure of the bad one is what is searched for from here on.

        Raises:
            RequestError: the good end fails, or an end is untestable.
            NothingFails: the bad end passes.
            CouldNotRun: an end does not repeat.
        """
        end = self.end(bad)
        start = self._look(good, 2)
        self._require(good, "good", start, "pass")
        return end

    def end(self, bad: P) -> Judgement:
        """Verify and repeat the bad end alone, for a search that has no good one.

        Raises:
            RequestError: it is untestable.
            NothingFails: it passes.
            CouldNotRun: it does not repeat.
        """
        end = self._look(bad, 2)
        self._require(bad, "bad", end, "fail")
        self.signature = end.signature
        return end

    def _require(self, point: P, which: str, found: Judgement, wanted: Outcome) -> None:
        if found.outcome == wanted:
            return
        where = f"the {which} end, {self._label(point)},"
        if found.outcome == "ambiguous":
            raise CouldNotRun(f"{where} gives no answer: {found.detail}; nothing can be searched between such ends")
        if found.outcome == "untestable":
            raise RequestError(f"{where} cannot be judged: {found.detail}; give one that can")
        if which == "bad":
            raise NothingFails(f"{where} passes: {found.detail or 'nothing fails'}; there is nothing to search for")
        raise RequestError(f"{where} fails already: {found.detail}; give one that passes")

    def __call__(self, point: P) -> Outcome:
        """Judge a point; a failure with another signature than that of the bad end is ambiguous."""
        found = self._look(point, self.repeat)
        if found.outcome == "fail" and self.signature is not None and found.signature != self.signature:
            found = ambiguous(f"another failure: {found.detail}")
            key = self._key(point)
            self._rows[key] = replace(self._rows[key], outcome="ambiguous", detail=found.detail)
        return found.outcome

    def fails(self, point: P) -> bool:
        """Whether a point fails as the bad end does."""
        return self(point) == "fail"

    def remembers(self, point: P) -> bool:
        """Whether a point was judged already, by this search or by one whose journal it goes on with."""
        return bool(self._looks.get(self._key(point)))

    def known(self, point: P) -> Judgement:
        """What was found at a point that was judged already."""
        return together(self._looks[self._key(point)])

    def _look(self, point: P, times: int) -> Judgement:
        key, label = self._key(point), self._label(point)
        begin, looks = time.perf_counter(), self._looks.setdefault(key, [])
        before = len(looks)
        while len(looks) < times:
            self._say(label if not looks else f"{label}, once more")
            look = self._judge(point)
            if self._journal is not None:
                self._journal.add(key, look)
            else:
                looks.append(look)
        found, row = together(looks), self._rows.get(key)
        self._rows[key] = TriedPoint(
            number=row.number if row else len(self._rows) + 1,
            point=label,
            outcome=found.outcome,
            signature=found.signature,
            detail=found.detail,
            looks=len(looks),
            remembered=len(looks) == before and (row is None or row.remembered),
            seconds=round((row.seconds if row else 0.0) + time.perf_counter() - begin, 3),
        )
        return found
