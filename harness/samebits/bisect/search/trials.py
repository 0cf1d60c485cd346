"""What a search records: the judgement of each point, once, in a journal from which an interrupted search goes on.

Further what it chooses from, which draws it, and its finding.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

from samebits.errors import CouldNotRun, RequestError
from samebits.host.file_reads import OUTSIDE, state_of
from samebits.host.isolation import note

P = TypeVar("P")

Outcome = Literal["pass", "fail", "ambiguous", "untestable"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Judgement:
    """One point judged; published, so keys keep their meaning.

    Args:
        outcome: `untestable` points cannot be judged at all (the build fails); `ambiguous` ones give no answer (they
            fail in another way, or not every time).
        signature: of a failure, the part that must stay the same during the search: its first step and leaf.
        detail: one line for the table.
    """

    outcome: Outcome
    signature: str = ""
    detail: str = ""
    numbers: Mapping[str, Any] = field(default_factory=dict)


def passed(detail: str = "", **numbers: Any) -> Judgement:
    """Say that the point passes."""
    return Judgement(outcome="pass", detail=detail, numbers=numbers)


def failed(signature: str, detail: str = "", **numbers: Any) -> Judgement:
    """Say that the point fails with a signature."""
    return Judgement(outcome="fail", signature=signature, detail=detail or signature, numbers=numbers)


def untestable(detail: str) -> Judgement:
    """Say that the point cannot be judged."""
    return Judgement(outcome="untestable", detail=detail)


def ambiguous(detail: str) -> Judgement:
    """Say that the point was run, without a clear answer."""
    return Judgement(outcome="ambiguous", detail=detail)


def together(looks: Sequence[Judgement]) -> Judgement:
    """Join several judgements of one point: the first if all agree, else ambiguous."""
    first = looks[0]
    same = sum((look.outcome, look.signature) == (first.outcome, first.signature) for look in looks)
    if same == len(looks):
        return first
    words = ", ".join(dict.fromkeys(f"{look.outcome} {look.signature}".rstrip() for look in looks))
    return ambiguous(f"does not repeat: {words} in {len(looks)} runs")


Ranges = tuple[tuple[int, int], ...]
"""Positions of candidates as ranges, first and last included."""


def _nothing(_: object) -> tuple[int, ...]:
    return ()


def _no_measures(_: object) -> dict[str, int]:
    return {}


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchSpace(Generic[P]):
    """The candidates of a search.

    Args:
        candidates: what may be the cause, in order: commits (oldest first), steps, choices, options; empty where the
            search makes one point smaller.
        taken: the positions of the candidates that a point takes.
        measures: the sizes of a point, where it is made smaller.
    """

    candidates: tuple[str, ...] = ()
    taken: Callable[[P], Iterable[int]] = _nothing
    measures: Callable[[P], Mapping[str, int]] = _no_measures


def space_of_sets(names: Sequence[str]) -> SearchSpace[frozenset[str]]:
    """Return the space of a search whose points are sets of names."""
    place = {name: number for number, name in enumerate(names)}
    return SearchSpace(
        candidates=tuple(names), taken=lambda point: sorted(place[name] for name in point if name in place)
    )


def ranges(positions: Iterable[int]) -> Ranges:
    """Return ascending positions as ranges: `0 1 2 5` is `(0, 2), (5, 5)`."""
    pieces: list[tuple[int, int]] = []
    for position in positions:
        if pieces and pieces[-1][1] == position - 1:
            pieces[-1] = (pieces[-1][0], position)
        else:
            pieces.append((position, position))
    return tuple(pieces)


FORMAT = "samebits bisect journal 2"


class SearchJournal:
    """The judgements of one search, by the key of the point that was run; one JSON line each, written at once.

    An incomplete last line is dropped when reading. The first line holds a digest of the search, and the journal of
    another search is rejected. Each judgement has a digest of what was read until then: one that rests on a file that
    has changed since does not count, and one that rests on what cannot be compared, such as another program, is not
    written.

    Args:
        path: the file; created with the first judgement.
        what: a digest of everything that the judgements depend on besides the point and what is read.
        reads: tells what was read so far (`FileReads.all`).

    Raises:
        RequestError: the file belongs to another search, or is not a journal.
    """

    def __init__(self, path: Path, what: str, reads: Callable[[], Iterable[str]] = tuple) -> None:
        self.path = path
        self._can_write = True
        self.what = what
        self._reads = reads
        self.looks: dict[str, list[Judgement]] = {}
        self._whole = 0
        if path.exists() and path.stat().st_size:
            self._read()

    def _read(self) -> None:
        try:
            text = self.path.read_bytes()
        except OSError as error:
            raise RequestError(f"journal {self.path}: cannot be read: {error.strerror or error}") from None
        lines = text.split(b"\n")
        torn = lines.pop()  # empty, or an incomplete last line
        self._whole = len(text) - len(torn)
        if not lines:
            return
        try:
            head = json.loads(lines[0])
            same = head["format"] == FORMAT
            what = head["what"]
            looks = [json.loads(line) for line in lines[1:]]
        except (ValueError, KeyError, TypeError):
            raise RequestError(
                f"journal {self.path}: is not a journal of a bisection; give another file, or remove it"
            ) from None
        if not same or what != self.what:
            raise RequestError(
                f"journal {self.path}: belongs to another search; give another file, or remove it to start over"
            )
        states: dict[str, str] = {}
        for look in looks:
            key, reads = look.pop("key"), look.pop("reads")
            for read in reads.keys() - states.keys():
                states[read] = state_of(read)
            if all(states[read] == state for read, state in reads.items()):
                self.looks.setdefault(key, []).append(Judgement(**look))

    def add(self, key: str, look: Judgement) -> None:
        """Append one judgement."""
        self.looks.setdefault(key, []).append(look)
        reads = [*self._reads()]
        if any(read.startswith(OUTSIDE) for read in reads):
            return
        line = _line({"key": key, "reads": {read: state_of(read) for read in reads}, **asdict(look)})
        if self._can_write:
            try:
                self._write(line)
            except OSError as error:  # the search goes on: its judgements are known in this process
                self._can_write = False
                why = error.strerror or error
                words = f"journal {self.path}: cannot be written ({why}): this search cannot be continued later"
                note(words, lasting=False)

    def _write(self, line: bytes) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        first = self._whole == 0
        with self.path.open("r+b" if self.path.exists() else "w+b") as file:
            file.truncate(self._whole)
            file.seek(self._whole)
            if first:
                file.write(_line({"format": FORMAT, "what": self.what}))
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
            self._whole = file.tell()


def _line(values: dict[str, Any]) -> bytes:
    return json.dumps(values, sort_keys=True, default=str).encode() + b"\n"


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
    """The bad end passes, so there is nothing to search for."""

    def __init__(self, message: str, tried: tuple[TriedPoint, ...] = ()) -> None:
        super().__init__(message)
        self.tried = tried

    def finding(self, what: str) -> SearchFinding:
        """Return it as the finding of a bisection."""
        repeats = sum(trial.looks - 1 for trial in self.tried)
        runs = len(self.tried)
        return SearchFinding(what=what, found=False, sentence=str(self), trials=self.tried, runs=runs, repeats=repeats)


class Trials(Generic[P]):
    """Judges points, and caches the judgements.

    Args:
        key: everything that the judgement of a point depends on, as text; points with the same key are run once.
        label: a point in words.
        journal: stores judgements on disk, if given.
        repeat: how many times each point is run; runs that disagree make it ambiguous.
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
        """Return the finding of this search, with the points that were tried and their counts."""
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
        """Run both ends twice; the search is then for the bad end's failure."""
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
