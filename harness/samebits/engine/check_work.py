"""The points of `samebits check` as work."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from samebits.check.point_memory import PointMemory
from samebits.check.run_points import AHEAD, How, PointDone, PointStage, point_steps
from samebits.check.verdict import without_leaves
from samebits.engine.work import (
    Event,
    Item,
    ProcessExit,
    Reached,
    Started,
    Work,
    finished,
    lost_words,
    remarks,
    trouble,
)
from samebits.host import environment
from samebits.host.entry_store import EntryStore
from samebits.host.file_reads import OUTSIDE
from samebits.host.group import LockstepGroup
from samebits.programs.catalogue import Locator, load
from samebits.programs.plan import LoadedPair
from samebits.programs.program_cache import Programs
from samebits.programs.replay import replay
from samebits.schema.finding import Finding
from samebits.schema.pair import Pair
from samebits.schema.point import USUAL, Effort, Point

CALLS = f"{OUTSIDE}calls: "
"""How a read begins that says what the programs of a point call: then its results are not remembered at all."""


@dataclass(frozen=True, slots=True)
class MemoryPlace:
    """Where results are remembered by their programs.

    Args:
        base: a digest of everything that they depend on beside programs and inputs.
        fresh: whether nothing is recalled.
    """

    folder: str
    base: str
    fresh: bool = False


def check_items(loaded: Sequence[LoadedPair]) -> list[Item]:
    """Return the points of pairs, in the order of their plans."""
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
    """Return the key of a point among those of all pairs."""
    return f"{pair}/{point}"


class CheckWork(Work[Finding]):
    """Points are executed, compared and judged.

    Args:
        ahead: how many points are traced ahead.
        group: the processes that check every point together; it stays in its process.
        pairs: those that are loaded in this process; another one loads what it is given points of.
        memory: where results are remembered by their programs; None where they are not.
    """

    kind = "check"
    row = Finding

    def __init__(
        self,
        effort: Effort = USUAL,
        ahead: int = AHEAD,
        group: LockstepGroup | None = None,
        pairs: Mapping[Locator, Pair] = MappingProxyType({}),
        memory: MemoryPlace | None = None,
    ) -> None:
        self.effort, self.ahead, self.memory = effort, ahead, memory
        self._group = group
        self._declared: dict[Locator, Pair] | None = dict(pairs)
        self._pair: tuple[Locator, Pair] | None = None
        self._programs: Programs | None = None
        self._known: PointMemory | None = None

    def run(self, items: Sequence[Item], ahead: int) -> Iterator[Event]:
        """Check points of one pair; programs stay for the next chunk of the same pair."""
        locator: Locator = items[0].payload[0]
        try:
            with self._memory() as memory:
                yield from self._points(locator, [item.payload[1] for item in items], ahead, memory)
        except Exception as error:  # ours, or a bug of samebits, which must not stop the other pairs
            yield trouble(locator.name, error)
        yield from remarks()

    @contextlib.contextmanager
    def _memory(self) -> Iterator[PointMemory | None]:
        """Open what is known of points by their programs."""
        if self.memory is None or self._group is not None:
            yield None
            return
        self._known = self._known or PointMemory(self.memory.base, fresh=self.memory.fresh)
        if self.effort.shake:  # what is remembered by programs was not shaken
            yield self._known
            return
        with contextlib.closing(EntryStore(Path(self.memory.folder))) as self._known.entries:
            yield self._known

    def _points(
        self, locator: Locator, points: Sequence[Point], ahead: int, memory: PointMemory | None
    ) -> Iterator[Event]:
        environment.devices_here()  # in one line where another process has taken the accelerator meanwhile
        self._programs = self._programs or Programs(group=self._group)
        if self._pair is None or self._pair[0] != locator:
            if self._pair is not None:
                self._programs.forget(self._pair[1].name)
            self._pair = locator, self._loaded(locator).on(environment.devices_here()[0].platform)
        pair = self._pair[1]
        for step in point_steps(pair, locator, points, self._programs, self.effort, how=How(ahead, memory)):
            key = key_of_point(pair.name, step.point)
            if isinstance(step, PointDone):
                yield finished(key, step.results, () if step.calls is None else (f"{CALLS}{step.calls}",))
                yield from remarks()
            if isinstance(step, PointStage) and step.stage == "tracing":
                yield Started(key)
            if isinstance(step, PointStage):
                yield Reached(key, step.stage)

    def _loaded(self, locator: Locator) -> Pair:
        self._declared = self._declared or {}  # of another process, which has loaded it
        if locator not in self._declared:
            self._declared[locator] = load(locator)
        return self._declared[locator]

    def lost(self, item: Item, loss: ProcessExit, stage: str) -> Finding:
        """Return an `error` row."""
        locator, point = item.payload
        return without_leaves(self._loaded(locator).name, point, "error", lost_words(loss, stage), item.replay)

    def close(self) -> None:
        """Stop the compiling threads."""
        if self._programs is not None:
            self._programs.close()
