"""The trainings of `samebits bisect pairs` as work: each mixture of two configurations is judged in a worker process.

The search decides which mixture comes next, so there is one item at a time; its process stays, with the good training
and its envelope, until a training ends it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from samebits.bisect.endpoints import EndpointsRequest
from samebits.bisect.pairs import JudgePoint, Point, judge_here, replay
from samebits.bisect.search.trials import Judgement, untestable
from samebits.engine.drive import Limits, drive
from samebits.engine.work import Executor, Item, OneByOne, ProcessExit, from_text, lost_words, to_text
from samebits.errors import CouldNotRun, RequestError
from samebits.host.file_reads import READS
from samebits.schema.result import Problem


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgedPoint:
    """A judgement as text: its numbers may be infinite."""

    text: str

    @property
    def judgement(self) -> Judgement:
        """The judgement."""
        return from_text(self.text, Judgement)


class BisectWork(OneByOne[JudgedPoint]):
    """Judges mixtures of two trainings."""

    kind = "bisect pairs"
    row = JudgedPoint

    def __init__(self, request: EndpointsRequest) -> None:
        self.request = request
        self._judge: JudgePoint | None = None

    def item(self, point: Point, steps: int, number: int) -> Item:
        """Return one judgement."""
        words = ", ".join(sorted(point)) or "no change"
        return Item(
            key=f"{number}: {words}",
            pair=words,
            words=words,
            replay=replay(self.request, point),
            group=0,
            payload=(tuple(sorted(point)), steps),
        )

    def steps(self, item: Item) -> Iterator[str | JudgedPoint]:
        """Judge."""
        from samebits.train.cache import persistent_compile_cache

        point, steps = item.payload
        yield f"training with {item.words}"
        with persistent_compile_cache():
            self._judge = self._judge or judge_here(self.request)
            yield JudgedPoint(text=to_text(self._judge(frozenset(point), steps)))

    def lost(self, item: Item, loss: ProcessExit, stage: str) -> JudgedPoint:
        """Return a mixture that cannot be judged."""
        return JudgedPoint(text=to_text(untestable(lost_words(loss, stage))))

    def close(self) -> None:
        """Drop the good training."""
        self._judge = None


class JudgeOnEngine:
    """Judges points one by one on an executor, whose process stays between them."""

    def __init__(self, work: BisectWork, executor: Executor, limits: Limits) -> None:
        self._work, self._executor, self._limits = work, executor, limits
        self._count = 0

    def __call__(self, point: Point, steps: int) -> Judgement:
        """Judge the choices taken from the bad training."""
        self._count += 1
        problems: list[Problem] = []
        items = [self._work.item(point, steps, self._count)]
        ran = list(drive(self._work, items, self._executor, limits=self._limits, on_problem=problems.append))
        READS.add(read for done in ran for read in done.reads)
        rows = [row for done in ran for row in done.rows]
        for problem in problems:
            raise RequestError(problem.message) if problem.exit_code == 2 else CouldNotRun(problem.message)
        return rows[0].judgement
