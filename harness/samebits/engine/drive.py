"""Has an executor do the work, and decides what a lost process costs: the item that ended it, and nothing else.

Programs are traced ahead, so several items may be under way in a process that ends, and an earlier item may have left a
thread in it, or taken its memory. Each of these suspects then runs alone in a fresh process: the one that ends it again
is the culprit, the others have their results. An item that timed out alone is not retried.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

import msgspec

from samebits.engine.work import (
    Chunk,
    Ended,
    Event,
    Executor,
    Finished,
    Item,
    ProcessExit,
    Reached,
    Remark,
    Started,
    Trouble,
    UserTraceback,
    Work,
)
from samebits.host.isolation import note
from samebits.host.memory import gibibytes
from samebits.schema.result import Problem
from samebits.user_errors import retain_text

Row = TypeVar("Row")

TIMEOUT = 900.0
"""Seconds after which an item that has not ended is ended."""

NODE_LOSSES = 5
"""How often the items of a chunk are tried again because a machine was lost."""

START = 120.0
"""Seconds that a process may take longer before its first item begins: it imports jax and the declaration."""

FEW = 4
"""Up to how many items one process has to itself for the head start of the executor."""

WAIT = 0.2
"""Seconds for which the driver waits for events before it checks times and memory."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """What an item may take.

    Args:
        bytes: that a process may hold; None where nothing is known of the machine's memory.
    """

    seconds: float = TIMEOUT
    bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Done(Generic[Row]):
    """An item with its rows.

    Args:
        reads: files of the user's that were read meanwhile.
        lost: the process ended; the row says so, and another run may give another one.
    """

    item: Item
    rows: tuple[Row, ...]
    encoded: tuple[msgspec.Raw, ...]
    reads: tuple[str, ...] = ()
    lost: bool = False
    recalled: bool = False


@dataclass(slots=True)
class _Running:
    """A chunk that has not ended.

    Args:
        begun: when the item that runs now did, or the chunk.
        stages: by key, the last one.
    """

    chunk: Chunk
    begun: float
    started: dict[str, None] = field(default_factory=dict)
    finished: set[str] = field(default_factory=set)
    stages: dict[str, str] = field(default_factory=dict)


def chunks_of(items: Sequence[Item], ahead: int, size: int, *, divides: bool = True) -> list[Chunk]:
    """Return items in chunks of one pair or one group; a group is divided only where it is larger than two chunks."""
    chunks: list[list[Item]] = []
    for item in items:
        last = chunks[-1] if chunks else None
        joins = last is not None and (item.pair == last[-1].pair or item.group == last[-1].group)
        most = 2 * size if divides else len(items)
        whole = last is not None and (len(last) >= most or (len(last) >= size and last[-1].group != item.group))
        if last is None or not joins or whole:
            chunks.append([item])
        else:
            last.append(item)
    return [Chunk(number=number, items=tuple(chunk), ahead=ahead) for number, chunk in enumerate(chunks)]


def drive(
    work: Work[Row],
    items: Sequence[Item],
    executor: Executor,
    *,
    limits: Limits,
    on_problem: Callable[[Problem], None],
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Done[Row]]:
    """Yield every item with its rows, in the order in which they are known; the executor stays open.

    `on_problem` is called once with each pair that cannot run at all; its other items are dropped.
    """
    yield from _Drive(work, items, executor, limits, on_problem, clock).results()


class _Drive(Generic[Row]):
    def __init__(
        self,
        work: Work[Row],
        items: Sequence[Item],
        executor: Executor,
        limits: Limits,
        on_problem: Callable[[Problem], None],
        clock: Callable[[], float],
    ) -> None:
        self.work, self.executor, self.limits = work, executor, limits
        self.on_problem, self.clock = on_problem, clock
        self.items = {item.key: item for item in items}
        # At the end of a run no worker waits for a chunk of another one that is longer than half of its share.
        share = -(-len(items) // (2 * max(executor.slots, 1)))  # a cluster may have lost its last node meanwhile
        self.waiting = deque(chunks_of(items, work.ahead, min(share, work.chunk), divides=work.divides))
        self.next_number = len(self.waiting)
        self.running: dict[int, _Running] = {}
        self.ended: set[str] = set()
        self.broken: set[str] = set()
        self.node_losses: dict[str, int] = {}
        self.begun = self.looked = clock()

    def results(self) -> Iterator[Done[Row]]:
        while self.waiting or self.running:
            self._fill()
            for number, event in self.executor.events(WAIT):
                yield from self._happened(number, event)
                self._fill()
            if self.clock() - self.looked >= WAIT:
                self.looked = self.clock()
                self._enforce()

    def _fill(self) -> None:
        while self.waiting and len(self.running) < self._slots():
            chunk = self.waiting.popleft()
            left = tuple(item for item in chunk.items if self._wanted(item))
            if left:
                chunk = replace(chunk, items=left)
                self.running[chunk.number] = _Running(chunk, self.clock())
                self.executor.submit(chunk)

    def _slots(self) -> int:
        """Return how many chunks may run now: another process would start for as long as a few small items take."""
        alone = len(self.items) <= FEW and self.clock() - self.begun < self.executor.head_start
        return 1 if alone else self.executor.slots

    def _wanted(self, item: Item) -> bool:
        return item.key not in self.ended and item.pair not in self.broken

    def _happened(self, number: int, event: Event | Ended) -> Iterator[Done[Row]]:
        running = self.running.get(number)
        if isinstance(event, Remark):
            note(event.text)
        elif isinstance(event, UserTraceback):
            retain_text(event.text)
        elif isinstance(event, Trouble):
            if event.pair not in self.broken:
                self.broken.add(event.pair)
                self.on_problem(Problem(pair=event.pair, message=event.message, exit_code=event.exit_code))
        elif running is None:
            return  # an event of a chunk that was given up
        elif isinstance(event, Started):
            if len(running.started) == len(running.finished):
                running.begun = self.clock()
            running.started.setdefault(event.key)
        elif isinstance(event, Reached):
            running.stages[event.key] = event.stage
        elif isinstance(event, Finished):
            running.finished.add(event.key)
            running.begun = self.clock()
            if event.key in self.items and event.key not in self.ended:
                self.ended.add(event.key)
                rows: tuple[Row, ...] = tuple(msgspec.json.decode(row, type=self.work.row) for row in event.rows)
                yield Done(self.items[event.key], rows, event.rows, event.reads)
        else:
            yield from self._chunk_ended(self.running.pop(number), event)

    def _chunk_ended(self, running: _Running, ended: Ended) -> Iterator[Done[Row]]:
        loss = ended.loss
        rest = [item for item in running.chunk.items if item.key not in running.finished and self._wanted(item)]
        if not rest:
            return
        if loss is None:
            loss = ProcessExit(kind="exit", text="its chunk ended without a result of it")
            for item in rest:
                yield self._lost(item, loss, running)
            return
        if loss.kind == "node" and all(self._may_move(item) for item in rest):
            self._again(rest, running.chunk.ahead)
            return
        # Without a start the process ended where it was set up: then the first item is tried alone.
        suspects = [item for item in rest if item.key in running.started] or rest[:1]
        alone = len(running.started) - len(running.finished) <= 1 and len(running.chunk.items) == 1
        first = loss.kind == "timeout" or not (ended.used or running.finished)
        certain = len(suspects) == 1 and first and (suspects[0].key in running.started or alone)
        if certain:
            yield self._lost(suspects[0], loss, running)
        else:
            for item in reversed(suspects):
                self._again([item], 0, alone=True)
            count = "1 item" if len(suspects) == 1 else f"{len(suspects)} items"
            note(
                f"a process ended ({loss.text}) with {count} under way, the first {suspects[0].words}; "
                "each was run again alone",
                lasting=False,
            )
        self._again([item for item in rest if item not in suspects], running.chunk.ahead)

    def _may_move(self, item: Item) -> bool:
        self.node_losses[item.key] = self.node_losses.get(item.key, 0) + 1
        return self.node_losses[item.key] <= NODE_LOSSES

    def _again(self, items: list[Item], ahead: int, *, alone: bool = False) -> None:
        if items:
            chunk = Chunk(number=self.next_number, items=tuple(items), ahead=ahead, fresh=alone)
            self.next_number += 1
            (self.waiting.appendleft if alone else self.waiting.append)(chunk)

    def _lost(self, item: Item, loss: ProcessExit, running: _Running) -> Done[Row]:
        self.ended.add(item.key)
        row = self.work.lost(item, loss, running.stages.get(item.key, "starting"))
        return Done(item, (row,), (msgspec.Raw(msgspec.json.encode(row)),), lost=True)

    def _enforce(self) -> None:
        """End processes whose item takes too long or too much memory."""
        now, limits = self.clock(), self.limits
        for number, running in self.running.items():
            if self.executor.queued(number):
                running.begun = now
            if now - running.begun > limits.seconds + (0 if running.started else START):
                self.executor.kill(number, ProcessExit(kind="timeout", text=f"more than {limits.seconds:g} s"))
            size = None if limits.bytes is None else self.executor.memory(number)
            if size is not None and limits.bytes is not None and size > limits.bytes:
                text = f"{gibibytes(size)} of memory, more than the {gibibytes(limits.bytes)} that a process may hold"
                self.executor.kill(number, ProcessExit(kind="memory", text=text))
