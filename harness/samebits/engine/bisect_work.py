"""The trainings of `samebits bisect pairs` as work: each mixture of two configurations is judged in a worker process.

The search decides which mixture comes next, so there is one item at a time; its process stays, with the good training
and its envelope, until a training ends it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from samebits.bisect.endpoints import Endpoints, EndpointsRequest, endpoints_of
from samebits.bisect.result import command
from samebits.bisect.search.judgement import Judgement, untestable
from samebits.engine.rows import finished, from_text, lost_words, remarks, to_text, trouble
from samebits.engine.work import Event, Item, Loss, Reached, Started, Work

Point = frozenset[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgedPoint:
    """A judgement as text: its numbers may be infinite."""

    text: str

    @property
    def judgement(self) -> Judgement:
        """The judgement."""
        return from_text(self.text, Judgement)


class BisectWork(Work[JudgedPoint]):
    """Judges mixtures of two trainings.

    Args:
        request: names the two.
    """

    kind = "bisect pairs"
    row = JudgedPoint

    def __init__(self, request: EndpointsRequest) -> None:
        self.request = request
        self._trainings: tuple[Endpoints, Callable[[Point, int], Judgement]] | None = None

    def item(self, point: Point, steps: int, number: int) -> Item:
        """One judgement.

        Args:
            point: the differences that are taken from the bad training.
            steps: of every run.
            number: of the judgement, since a point may be judged more than once.
        """
        words = ", ".join(sorted(point)) or "no change"
        only = ["--only", ",".join(sorted(point))] if point else []
        return Item(
            key=f"{number}: {words}",
            pair=words,
            words=words,
            replay=command("samebits", "bisect", "pairs", *self.request.words(), *only),
            group=0,
            payload=(tuple(sorted(point)), steps),
        )

    def run(self, items: Sequence[Item], ahead: int) -> Iterator[Event]:
        """Judge."""
        from samebits.train.cache import persistent_compile_cache

        for item in items:
            point, steps = item.payload
            yield Started(key=item.key)
            yield Reached(key=item.key, stage=f"training with {item.words}")
            try:
                with persistent_compile_cache():
                    judgement = self._judge(frozenset(point), steps)
            except Exception as error:
                yield trouble(item.pair, error)
            else:
                yield finished(item.key, (JudgedPoint(text=to_text(judgement)),))
            yield from remarks()

    def _judge(self, point: Point, steps: int) -> Judgement:
        from samebits.bisect.trainings import Trainings

        if self._trainings is None:
            ends = endpoints_of(self.request)
            trainings = Trainings(ends.model, ends.root, ends.good, self.request.steps)

            def judge(point: Point, steps: int) -> Judgement:
                trainings.base()  # with all steps, before fewer are asked for
                trainings.steps = steps
                return trainings.judge(*ends.mixture(point))

            self._trainings = ends, judge
        return self._trainings[1](point, steps)

    def lost(self, item: Item, loss: Loss, stage: str) -> JudgedPoint:
        """A mixture that cannot be judged."""
        return JudgedPoint(text=to_text(untestable(lost_words(loss, stage))))

    def close(self) -> None:
        """Drop the good training."""
        self._trainings = None

    def __getstate__(self) -> dict[str, object]:
        return {"request": self.request, "_trainings": None}
