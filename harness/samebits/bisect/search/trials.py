"""The trials of a search: judges each point once, caches and counts the judgements, and verifies both ends."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from samebits.bisect.search.journal import SearchJournal
from samebits.bisect.search.judgement import Judgement, Outcome, ambiguous, together
from samebits.bisect.search.space import Ranges, SearchSpace, ranges
from samebits.errors import CouldNotRun, RequestError

P = TypeVar("P")

Say = Callable[[str], None]

Judged = Callable[[float, int | None], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class TriedPoint:
    """One row of the table of points tried; published as JSON, so keys keep their meaning.

    Args:
        number: the position in the table, from 1.
        point: the label of the point.
        outcome, signature, detail: of its judgement.
        looks: how many times the point was run.
        remembered: whether all of these runs came from the journal.
        seconds: wall time of this search's own runs.
        taken: the positions, in the finding's `candidates`, that the point takes.
        left: after this point, the positions of the candidates that can still be the cause, as ranges with both ends;
            null where the point narrowed nothing.
        measures: the sizes of the point, in a search for the smallest one; `devices` among them.
    """

    number: int
    point: str
    outcome: Outcome
    signature: str
    detail: str
    looks: int
    remembered: bool
    seconds: float
    taken: tuple[int, ...] = ()
    left: Ranges | None = None
    measures: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchFinding:
    """The result of a bisection; published as JSON, so keys keep their meaning.

    Args:
        what: which bisection.
        found: whether a cause was found.
        sentence: the answer in one sentence.
        culprits: the causes; each entry is one minimal set of names.
        witness: the location and the numbers that show the failure.
        replay: the command that reproduces it.
        candidates: what may be the cause, in order: commits (oldest first), steps, choices, options; empty where the
            search makes one point smaller.
        trials: every point tried, in order.
        runs, repeats: number of points run, and number of repeated runs of the same point.
        least: the smallest number of runs that could have found the cause.
        skipped: points that could not be judged.
        notes: further remarks.
        detail: fields specific to this bisection.
        seconds: wall time.
        interrupted: whether the search was stopped before its end.
    """

    what: str
    found: bool
    sentence: str
    culprits: tuple[tuple[str, ...], ...] = ()
    witness: str = ""
    replay: str = ""
    candidates: tuple[str, ...] = ()
    trials: tuple[TriedPoint, ...] = ()
    runs: int = 0
    repeats: int = 0
    least: int = 0
    skipped: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    detail: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    interrupted: bool = False


class NothingFails(RequestError):
    """The bad end passes, so there is nothing to search for.

    Args:
        message: one line.
        tried: the points that were run.
    """

    def __init__(self, message: str, tried: tuple[TriedPoint, ...] = ()) -> None:
        super().__init__(message)
        self.tried = tried


class Trials(Generic[P]):
    """Judges points, and caches the judgements.

    Args:
        judge: judges one point.
        key: everything that the judgement of a point depends on, as text; points with the same key are run once.
        label: a point in words.
        journal: stores judgements on disk, if given.
        repeat: how many times each point is run; runs that disagree make it ambiguous.
        say: receives progress messages.
        judged: called after each point that was run, with its seconds and how many points are still to be judged, where
            that is known.
    """

    def __init__(
        self,
        judge: Callable[[P], Judgement],
        *,
        key: Callable[[P], str] = str,
        label: Callable[[P], str] = str,
        journal: SearchJournal | None = None,
        repeat: int = 1,
        say: Say = lambda text: None,
        judged: Judged = lambda seconds, left: None,
    ) -> None:
        self._judge, self._key, self._label, self._journal, self._say = judge, key, label, journal, say
        self._judged = judged
        self._left: int | None = None
        self.repeat = repeat
        self.signature: str | None = None
        self.what = ""
        self.space: SearchSpace[P] = SearchSpace()
        self._looks: dict[str, list[Judgement]] = {} if journal is None else journal.looks
        self._rows: dict[str, TriedPoint] = {}

    @property
    def tried(self) -> list[TriedPoint]:
        """One row per point, in order."""
        return list(self._rows.values())

    @property
    def runs(self) -> int:
        """The number of points run, including those whose judgement came from the journal."""
        return len(self._rows)

    @property
    def repeats(self) -> int:
        """The number of repeated runs of the same point."""
        return sum(row.looks - 1 for row in self._rows.values())

    def finding(self, **fields: Any) -> SearchFinding:
        """Return the finding of this search, with the points that were tried and their counts.

        Args:
            fields: those of `SearchFinding` that the search does not know, or knows otherwise.
        """
        known = {"candidates": self.space.candidates, "trials": tuple(self.tried), "runs": self.runs}
        return SearchFinding(**{"what": self.what, "repeats": self.repeats, **known, **fields})

    def unjudged(self, *outcomes: Outcome) -> tuple[str, ...]:
        """List the points without an answer, each with its reason.

        Args:
            outcomes: which ones; those that could not be judged at all by default.
        """
        outcomes = outcomes or ("untestable",)
        return tuple(f"{trial.point}: {trial.detail}" for trial in self.tried if trial.outcome in outcomes)

    def ends(self, good: P, bad: P) -> Judgement:
        """Run both ends twice; the search is then for the bad end's failure.

        Raises:
            RequestError: the good end fails, or an end is untestable.
            NothingFails: the bad end passes.
            CouldNotRun: the result at an end is not reproducible.
        """
        end = self.end(bad)
        start = self._look(good, 2)
        self._require(good, "good", start, "pass")
        return end

    def end(self, bad: P) -> Judgement:
        """Run the bad end twice, for a search without a good end.

        Raises:
            RequestError: it is untestable.
            NothingFails: it passes.
            CouldNotRun: its result is not reproducible.
        """
        end = self._look(bad, 2)
        self._require(bad, "bad", end, "fail")
        self.signature = end.signature
        return end

    def _require(self, point: P, which: str, judgement: Judgement, wanted: Outcome) -> None:
        if judgement.outcome == wanted:
            return
        where = f"the {which} end, {self._label(point)},"
        if judgement.outcome == "ambiguous":
            raise CouldNotRun(f"{where} gives no answer: {judgement.detail}; nothing can be searched between such ends")
        if judgement.outcome == "untestable":
            raise RequestError(f"{where} cannot be judged: {judgement.detail}; give one that can")
        if which == "bad":
            seen = judgement.detail or "nothing fails"
            raise NothingFails(f"{where} passes: {seen}; there is nothing to search for", tuple(self.tried))
        raise RequestError(f"{where} fails already: {judgement.detail}; give one that passes")

    def __call__(self, point: P) -> Outcome:
        """Judge a point; a failure with another signature than the bad end's is ambiguous."""
        judgement = self._look(point, self.repeat)
        if judgement.outcome == "fail" and self.signature is not None and judgement.signature != self.signature:
            judgement = ambiguous(f"another failure: {judgement.detail}")
            key = self._key(point)
            self._rows[key] = replace(self._rows[key], outcome="ambiguous", detail=judgement.detail)
        return judgement.outcome

    def alone(self, point: P) -> Judgement:
        """Judge a point for itself: a failure with another signature than the bad end's counts too."""
        return self._look(point, self.repeat)

    def fails(self, point: P) -> bool:
        """Return whether a point fails as the bad end does."""
        return self(point) == "fail"

    def narrowed(self, point: P, left: Iterable[int]) -> None:
        """Record which candidates can still be the cause after a point that was judged, by position."""
        key, candidates = self._key(point), list(left)
        self._rows[key] = replace(self._rows[key], left=ranges(candidates))
        self._left = math.ceil(math.log2(len(candidates) or 1))

    def remembers(self, point: P) -> bool:
        """Return whether a point was already judged, by this search or by the one that wrote the journal."""
        return bool(self._looks.get(self._key(point)))

    def known(self, point: P) -> Judgement:
        """Return the judgement of a point that was already judged."""
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
        judgement, row, seconds = together(looks), self._rows.get(key), time.perf_counter() - begin
        if len(looks) > before:
            self._judged(seconds, None if self._left is None else max(self._left - 1, 0))
        self._rows[key] = TriedPoint(
            number=row.number if row else len(self._rows) + 1,
            point=label,
            outcome=judgement.outcome,
            signature=judgement.signature,
            detail=judgement.detail,
            looks=len(looks),
            remembered=len(looks) == before and (row is None or row.remembered),
            seconds=round((row.seconds if row else 0.0) + seconds, 3),
            taken=tuple(self.space.taken(point)),
            left=row.left if row else None,
            measures=self.space.measures(point),
        )
        return judgement
