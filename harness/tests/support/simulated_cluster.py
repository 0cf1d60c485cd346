"""A cluster in simulated time, as an executor for the real driver: a thousand workers without a process.

Workers die, machines are lost with all their workers, items crash, hang, eat memory or straggle, and news arrives twice
or after the process that sent it was ended.
"""

import heapq
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from samebits.engine.work import Chunk, Ended, Event, Executor, Finished, Item, ProcessExit, Reached, Started, Work
from samebits.schema.finding import Finding
from tests.support.findings import finding

Fate = Literal["honest", "crashes", "hangs", "greedy"]

START = 4.0
"""Seconds until a process has imported jax."""

KILL = 0.5
"""Seconds until a process that is ended has ended."""

LONGEST = 800.0
"""Seconds that an honest item takes at most."""

MEMORY = 8 * 2**30
"""What a process may hold."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Behaviour:
    """How often what goes wrong; probabilities but for the last one.

    Args:
        crashes, hangs, greedy: of an item: that it ends its process, never ends, or takes all memory; every time.
        straggles: of an item: that it takes 20 times as long.
        repeated: of a message: that it arrives twice.
        late: of a process that was ended: that the item under way is reported as finished afterwards.
        node_losses: expected losses of a machine per 1000 simulated seconds, all machines together.
    """

    crashes: float = 0.0
    hangs: float = 0.0
    greedy: float = 0.0
    straggles: float = 0.0
    repeated: float = 0.0
    late: float = 0.0
    node_losses: float = 0.0


@dataclass(frozen=True, slots=True)
class Task:
    """What a simulated item does."""

    seconds: float
    fate: Fate


def row_of(item: Item, reason: str | None = None) -> Finding:
    """A row as `samebits check` has it, with what most of them hold."""
    verdict: Literal["error", "bitwise"] = "error" if reason else "bitwise"
    return finding(
        pair=item.pair, variant="fast", case="default", dtype="bfloat16", mesh="data2_tensor4", mode="auto",
        direction="forward", leaf=item.key, verdict=verdict, required="bitwise", ok=not reason, reason=reason,
        evidence="the same bits on every input tried", elements=8192, mismatches=0, max_ulp=0, seconds=0.125,
        replay=item.replay,
    )  # fmt: skip


class SimulatedWork(Work[Finding]):
    """Rows of `samebits check` without a check."""

    kind = "check"
    row = Finding
    ahead = 2

    def run(self, items: Sequence[Item], ahead: int) -> Iterator[Event]:
        """Nothing runs: the cluster says what happens."""
        raise NotImplementedError

    def lost(self, item: Item, loss: ProcessExit, stage: str) -> Finding:
        """An `error` row."""
        return row_of(item, f"{loss.kind}: its process ended ({loss.text}) while {stage}")


def items_of(count: int, behaviour: Behaviour, seed: int, per_pair: int = 40) -> list[Item]:
    """Items with their durations and fates, the same for the same seed."""
    chance, items = random.Random(seed), []
    fates: tuple[Fate, ...] = ("crashes", "hangs", "greedy")
    weights = [behaviour.crashes, behaviour.hangs, behaviour.greedy]
    for number in range(count):
        (fate,) = chance.choices(("honest", *fates), [1 - sum(weights), *weights])
        seconds = min(chance.lognormvariate(3.0, 0.7) * (20 if chance.random() < behaviour.straggles else 1), LONGEST)
        pair = f"pair{number // per_pair}"
        item = Item(
            key=f"{pair}/{number}", pair=pair, words=f"{pair}: item {number}",
            replay=f"samebits check {pair} --variant fast --case default --dtype bfloat16 --mesh data2_tensor4",
            group=(pair, number // 4), payload=Task(seconds, fate),
        )  # fmt: skip
        items.append(item)
    return items


class SimulatedCluster(Executor):
    """Machines with workers, in simulated time."""

    def __init__(self, slots: int, nodes: int, behaviour: Behaviour, seed: int) -> None:
        self.slots, self.now = slots, 0.0
        self.lost_with_node: dict[str, int] = {}
        self.busy_seconds = 0.0
        self._behaviour, self._chance, self._nodes = behaviour, random.Random(seed), nodes
        self._heap: list[tuple[float, int, int, Any]] = []
        self._sequence = 0
        self._running: dict[int, tuple[Chunk, int, float]] = {}
        self._current: dict[int, Item] = {}
        self._dying: set[int] = set()
        self._free = [slot % nodes for slot in range(slots)]
        self._plan_node_loss()

    def clock(self) -> float:
        """Simulated seconds."""
        return self.now

    def submit(self, chunk: Chunk) -> None:
        """Plan everything that the process of a chunk will say."""
        node = self._free.pop()  # an IndexError: the driver has submitted more chunks than there are slots
        self._running[chunk.number] = chunk, node, self.now
        at, begun = self.now + START, 0
        for index, item in enumerate(chunk.items):
            while begun <= min(index + chunk.ahead, len(chunk.items) - 1):
                self._at(at, chunk.number, Started(chunk.items[begun].key))
                begun += 1
            task: Task = item.payload
            self._at(at, chunk.number, Reached(item.key, "compiling 'fast' on data2_tensor4"))
            self._at(at, chunk.number, item)
            at += task.seconds
            if task.fate == "crashes":
                self._at(at, chunk.number, Ended(ProcessExit(kind="signal", text="SIGSEGV")))
                return
            if task.fate in ("hangs", "greedy"):
                return
            self._at(at, chunk.number, Finished(item.key, (msgspec.Raw(msgspec.json.encode(row_of(item))),)))
        self._at(at, chunk.number, Ended())

    def events(self, seconds: float) -> Iterator[tuple[int, Event | Ended]]:
        """Go on to the next moment at which something happens, at most so many seconds away."""
        until = self.now + seconds
        if not self._heap or self._heap[0][0] > until:
            self.now = until
            return
        self.now = max(self.now, self._heap[0][0])
        while self._heap and self._heap[0][0] <= self.now:
            _, _, number, event = heapq.heappop(self._heap)
            yield from self._happens(number, event)

    def kill(self, number: int, loss: ProcessExit) -> None:
        """End a process; it goes on until it has ended, and may be heard of after that."""
        if number in self._running and number not in self._dying:
            self._dying.add(number)
            self._at(self.now + KILL, number, Ended(loss))

    def memory(self, number: int) -> int | None:
        """More than a process may hold where a greedy item runs."""
        item = self._current.get(number)
        return 2 * MEMORY if item is not None and item.payload.fate == "greedy" else MEMORY // 4

    def close(self) -> None:
        """Nothing runs."""

    def _happens(self, number: int, event: Any) -> Iterator[tuple[int, Event | Ended]]:
        if event is None:
            yield from self._node_lost()
            self._plan_node_loss()
        elif isinstance(event, tuple):
            yield number, event[0]  # late: whatever has become of the process
        elif number in self._running:
            if isinstance(event, Item):
                self._current[number] = event
            elif isinstance(event, Ended):
                yield from self._end(number, event)
            else:
                yield from [(number, event)] * (1 + (self._chance.random() < self._behaviour.repeated))

    def _end(self, number: int, event: Ended) -> Iterator[tuple[int, Event | Ended]]:
        _, node, begun = self._running.pop(number)
        self.busy_seconds += self.now - begun
        self._free.append(node)
        self._dying.discard(number)
        current = self._current.pop(number, None)
        if event.loss is not None and current is not None and self._chance.random() < self._behaviour.late:
            finished = Finished(current.key, (msgspec.Raw(msgspec.json.encode(row_of(current))),))
            self._at(self.now + self._chance.uniform(0, 5), number, (finished,))
        yield number, event
        if self._chance.random() < self._behaviour.repeated:
            yield number, event

    def _node_lost(self) -> Iterator[tuple[int, Event | Ended]]:
        node = self._chance.randrange(self._nodes)
        for number, (chunk, where, _) in list(self._running.items()):
            if where == node:
                for item in chunk.items:
                    self.lost_with_node[item.key] = self.lost_with_node.get(item.key, 0) + 1
                yield from self._end(number, Ended(ProcessExit(kind="node", text=f"node {node} is gone")))

    def _plan_node_loss(self) -> None:
        if self._behaviour.node_losses:
            self._at(self.now + self._chance.expovariate(self._behaviour.node_losses / 1000), -1, None)

    def _at(self, time: float, number: int, event: Any) -> None:
        self._sequence += 1
        heapq.heappush(self._heap, (time, self._sequence, number, event))
