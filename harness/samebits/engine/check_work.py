"""The points of `samebits check` as work."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

import msgspec

from samebits.check.run_points import AHEAD, PointDone, PointStage, point_steps
from samebits.check.verdict import without_leaves
from samebits.engine.pair_sources import PairSources, reads_beside
from samebits.engine.rows import lost_words, remarks, trouble
from samebits.engine.work import Event, Finished, Item, Loss, Reached, Started, Work
from samebits.errors import SamebitsError
from samebits.host import environment
from samebits.host.process_group import ProcessGroup
from samebits.host.source_closure import Sources
from samebits.programs.catalogue import Locator, load
from samebits.programs.plan import LoadedPair
from samebits.programs.program_cache import Programs
from samebits.programs.replay import replay
from samebits.schema.pair import Pair
from samebits.schema.point import USUAL, Effort, Point
from samebits.schema.result import Result


def check_items(loaded: Sequence[LoadedPair]) -> list[Item]:
    """The points of pairs, in the order of their plans."""
    return [
        Item(
            key=key_of_point(item.pair.name, point),
            pair=item.locator.name,
            words=f"{item.pair.name}: {point}",
            replay=replay(item.locator, point),
            group=(item.pair.name, point.case, point.dtype, point.mesh),
            payload=(item.locator, point),
        )
        for item in loaded
        for point in item.plan.points
    ]


def key_of_point(pair: str, point: Point) -> str:
    """The key of a point among those of all pairs."""
    return f"{pair}/{point}"


class CheckWork(Work[Result]):
    """Points are executed, compared and judged.

    Args:
        effort: how hard each point is tried.
        ahead: how many points are traced ahead.
        group: the processes that check every point together; it stays in its process.
        pairs: those that are loaded in this process; another one loads what it is given points of.
    """

    kind = "check"
    row = Result
    names_reads = True

    def __init__(
        self,
        effort: Effort = USUAL,
        ahead: int = AHEAD,
        group: ProcessGroup | None = None,
        pairs: Mapping[Locator, Pair] = MappingProxyType({}),
    ) -> None:
        self.effort = effort
        self._declared = dict(pairs)
        self._here: dict[Locator, Pair] = {}
        self._group = group
        self.ahead = ahead
        self._programs: Programs | None = None
        self._before: Locator | None = None
        self._finder = PairSources()
        self._sources: dict[Locator, Sources | None] = {}

    def run(self, items: Sequence[Item], ahead: int) -> Iterator[Event]:
        """Check points of one pair; programs stay for the next chunk of the same pair."""
        locator: Locator = items[0].payload[0]
        try:
            yield from self._points(locator, [item.payload[1] for item in items], ahead)
        except Exception as error:  # ours, or a bug of samebits, which must not stop the other pairs
            yield trouble(locator.name, error)
        yield from remarks()

    def _points(self, locator: Locator, points: Sequence[Point], ahead: int) -> Iterator[Event]:
        environment.devices_here()  # in one line where another process has taken the accelerator meanwhile
        self._programs = self._programs or Programs(group=self._group)
        if self._before is not None and locator != self._before:
            self._programs.forget(self._pair(self._before).name)
        self._before = locator
        if locator not in self._here:
            self._here[locator] = self._pair(locator).on(environment.devices_here()[0].platform)
        pair = self._here[locator]
        for step in point_steps(pair, locator, points, self._programs, self.effort, ahead=ahead):
            key = key_of_point(pair.name, step.point)
            if isinstance(step, PointDone):
                rows = tuple(msgspec.Raw(msgspec.json.encode(result)) for result in step.results)
                yield Finished(key, rows, self._reads(locator))
                yield from remarks()
            if isinstance(step, PointStage) and step.stage == "tracing":
                yield Started(key)
            if isinstance(step, PointStage):
                yield Reached(key, step.stage)

    def _pair(self, locator: Locator) -> Pair:
        if locator not in self._declared:
            self._declared[locator] = load(locator)
        return self._declared[locator]

    def _reads(self, locator: Locator) -> tuple[str, ...]:
        """What was read for the pair in this process, beside its sources."""
        if locator not in self._sources:
            try:
                self._sources[locator] = self._finder.of(self._pair(locator), locator)
            except SamebitsError:  # then nothing is remembered of it, and the cache says why
                self._sources[locator] = None
        sources = self._sources[locator]
        return () if sources is None else reads_beside(sources)

    def lost(self, item: Item, loss: Loss, stage: str) -> Result:
        """An `error` row."""
        locator, point = item.payload
        return without_leaves(self._pair(locator).name, point, "error", lost_words(loss, stage), item.replay)

    def close(self) -> None:
        """Stop the compiling threads."""
        if self._programs is not None:
            self._programs.close()

    def __getstate__(self) -> dict[str, object]:
        return {"effort": self.effort, "ahead": self.ahead}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__init__(**state)  # type: ignore[misc]
