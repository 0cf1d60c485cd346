"""Runs all of the work: what is already known is taken from the journal and the cache, the rest is executed."""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import msgspec

from samebits.engine.drive import TIMEOUT, Done, Limits, drive
from samebits.engine.journal import Journal
from samebits.engine.ray_request import RayRequest
from samebits.engine.work import (
    Chunk,
    Ended,
    Event,
    Executor,
    Finished,
    Item,
    ProcessExit,
    Shard,
    Started,
    Trouble,
    Work,
)
from samebits.errors import CouldNotRun, RequestError
from samebits.host.accelerator import expected_platform
from samebits.host.device_health import device_failure
from samebits.host.file_reads import FILE, MEANWHILE, OUTSIDE, READS, path_of, state_of
from samebits.host.group import LockstepGroup, RunEnded
from samebits.host.memory import GIB, gibibytes, memory_limit_per_worker
from samebits.host.own_output import own_stderr
from samebits.host.process_sources import sources_of_process, variables_in
from samebits.host.processors import usable_processors
from samebits.rooms import door
from samebits.schema.result import Problem

Row = TypeVar("Row")

SYNC = 1.0
"""Seconds after which results are forced to the disk; a killed process loses nothing, a power failure this much."""

LEAST_MEMORY = GIB // 2
"""What a worker process needs for jax and a small program."""

MOST_WORKERS = 8
"""At most how many worker processes are started where no number is asked for; each holds a jax of about 1 GB."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineSettings:
    """Where and how the work runs.

    Args:
        workers: how many worker processes; None for one per processor.
        in_process: run here, without isolation: for debuggers.
        seconds: after which an item is ended.
        bytes: of memory that a worker process may hold; None without a limit.
        resume: go on with what the journal of an earlier run of the same request holds.
        journal: its file, retained at the end; None for one in the cache folder, removed at the end.
        shard: the part that runs; None for the whole.
        ray: the cluster on which items run; None for this machine.
        group: the processes that run every item together, each in itself; None where this one is alone.
    """

    workers: int | None = None
    in_process: bool = False
    seconds: float = TIMEOUT
    bytes: int | None = None
    resume: bool = False
    journal: Path | None = None
    fresh: bool = False
    shard: Shard | None = None
    ray: RayRequest | None = None
    group: LockstepGroup | None = None

    @property
    def processes(self) -> int:
        """How many worker processes there are at most; 0 where everything runs in this one."""
        return 0 if self.in_process else self.workers or default_workers()


LOOK = 0.5
"""Seconds after which the sources are looked at again while items run."""

Dependencies = tuple[tuple[str, str], ...]
"""What rows rest on beside their key: what was read for them, with digests."""


@dataclass(frozen=True, slots=True)
class Recalled:
    """The rows of an earlier run, and what they rest on."""

    rows: tuple[msgspec.Raw, ...]
    dependencies: Dependencies


class SourceMemory:
    """Has the keys of results, under which a journal holds them; remembers nothing between runs by itself.

    Coarse on purpose: after an edit anywhere in the trees everything runs again, and nothing is ever resumed wrongly.

    Args:
        trees: whose modules count.
        request: what was asked for, and what else results depend on.
        most: as for `sources_of_process`.

    Attributes:
        ingredients: what every key has, by name.
    """

    def __init__(self, trees: Iterable[Path], request: Mapping[str, Any], *, most: int = 2**31) -> None:
        self.sources = sources_of_process(*trees, most=most)
        self.ingredients = {**request, **self.sources.parts}
        self._base = digest(self.ingredients)
        self._looked: tuple[float, str | None] = (0.0, None)
        self._states: dict[str, str] = {}

    def cache_key(self, item: Item) -> str:
        """Return a digest of everything that the rows of an item depend on, but for what is read meanwhile."""
        return digest({"base": self._base, "item": [item.pair, item.key, item.replay]})

    def recall(self, item: Item, cache_key: str) -> Recalled | None:
        """Return the rows of an earlier run; None where nothing is remembered."""
        return None

    def remember(self, cache_key: str, done: Done[Any]) -> Dependencies | None:
        """Remember the rows of an item that has run, and return what they rest on; None where they are not to be used.

        That another program was started counts for nothing: after a crash there would be nothing to resume.
        """
        states = self.states_of(done)
        if done.lost or self.changed_meanwhile(done) is not None:
            return None
        return tuple((read, state) for read, state in states if not read.startswith(OUTSIDE))

    def holds(self, dependencies: Dependencies) -> bool:
        """Return whether everything that was read is as it was."""
        return all(self._state(read) == state for read, state in dependencies)

    def states_of(self, done: Done[Any]) -> Dependencies:
        """Return what was read for an item beside the sources, with digests as they were when first asked for."""
        reads = dict.fromkeys((*done.reads, *READS.all()))
        return tuple((read, self._state(read)) for read in reads if path_of(read) not in self.sources.files)

    def changed_meanwhile(self, done: Done[Any]) -> str | None:
        """Return what was edited while an item ran, so that its rows may be of either; to be asked after the states."""
        if time.monotonic() - self._looked[0] > LOOK:
            self._looked = time.monotonic(), READS.changed(sorted(self.sources.files))
        removed = (path_of(read) for read in done.reads if read.endswith(MEANWHILE))
        return self._looked[1] or READS.changed(map(path_of, done.reads)) or next(removed, None)

    def _state(self, read: str) -> str:
        if read not in self._states:
            self._states[read] = state_of(read)
        return self._states[read]


def digest(parts: Mapping[str, Any]) -> str:
    """Return a digest of data that JSON can hold."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()


def reads_variables(reads: Iterable[str]) -> bool:
    """Return whether a module among what was read may read environment variables, of which no key has the values."""
    modules = (path_of(read) for read in reads if read.startswith(FILE) and read.endswith(".py"))
    return any(variables_in(path) != ((), False) for path in modules)


def run_work(
    work: Work[Row],
    items: Sequence[Item],
    settings: EngineSettings,
    *,
    on_problem: Callable[[Problem], None],
    journal: Journal | None = None,
    store: SourceMemory | None = None,
) -> Generator[Done[Row]]:
    """Yield every item with its rows, in the order in which they are known; closing the iterator ends all processes.

    Args:
        on_problem: called once with each pair that cannot run at all.
        journal: where results are written at once.
        store: what remembers results between runs; without one, the journal is written and not read.
    """
    items = settings.shard.of(items) if settings.shard is not None else items
    cache_keys = {} if store is None else {item.key: store.cache_key(item) for item in items}
    rest: list[Item] = []
    for item in items:
        rows = None if store is None else _known(item, cache_keys[item.key], journal, store)
        if rows is None:
            rest.append(item)
        else:
            yield Done(item, tuple(msgspec.json.decode(row, type=work.row) for row in rows), rows, recalled=True)
    if journal is not None:
        journal.sync()
    if not rest:
        return
    executor, synced = executor_of(work, len(rest), settings), time.monotonic()
    with contextlib.closing(executor):
        limits = Limits(seconds=settings.seconds, bytes=settings.bytes)
        for done in drive(work, rest, executor, limits=limits, on_problem=on_problem):
            cache_key = cache_keys.get(done.item.key)
            dependencies = None if store is None or cache_key is None else store.remember(cache_key, done)
            if journal is not None:
                journal.add(
                    done.item.key, None if dependencies is None else cache_key, done.encoded, dependencies or ()
                )
                if time.monotonic() - synced > SYNC:
                    journal.sync()
                    synced = time.monotonic()
            yield done


def _known(item: Item, cache_key: str, journal: Journal | None, store: SourceMemory) -> tuple[msgspec.Raw, ...] | None:
    """Return the rows of an item that need no run: of the journal, or remembered ones, which are written to it."""
    entry = None if journal is None else journal.before.entries.get(item.key)
    if journal is not None and entry is not None and entry.cache_key == cache_key and store.holds(entry.dependencies):
        journal.taken += 1
        return entry.rows
    recalled = store.recall(item, cache_key)
    if recalled is not None and journal is not None:
        journal.add(item.key, cache_key, recalled.rows, recalled.dependencies)
    return None if recalled is None else recalled.rows


def usual_settings(*, workers: int | None, seconds: float | None, limit: int | None) -> EngineSettings:
    """Return settings of worker processes, with a limit of memory from what this machine or container has."""
    share = memory_limit_per_worker(workers or default_workers())
    if workers is not None and limit is None and share < LEAST_MEMORY:
        raise RequestError(
            f"--workers {workers}: each would have {gibibytes(share)} of memory, and a process with jax needs "
            f"{gibibytes(LEAST_MEMORY)}; give fewer, or --memory for each"
        )
    return EngineSettings(
        workers=workers or default_workers(), seconds=seconds or TIMEOUT, bytes=share if limit is None else limit
    )


def executor_of(work: Work[Any], items: int, settings: EngineSettings) -> Executor:
    """Return where the work runs."""
    if settings.in_process:
        return InProcess(work, settings.group)
    if settings.ray is not None:
        cluster = door("cluster.ray_connection").connect(settings.ray)
        executor: Executor = door("cluster.ray_cluster").RayExecutor(work, cluster, _forward, settings.seconds)
        return executor
    from samebits.engine.worker_processes import WorkerProcesses

    return WorkerProcesses(work, max(min(settings.processes, items), 1), _forward)


def default_workers() -> int:
    """Return how many worker processes there are by default: one on a TPU, which belongs to one process."""
    return 1 if expected_platform() == "tpu" else min(usable_processors(), MOST_WORKERS)


def _forward(text: bytes) -> None:
    """Write to stderr what user code writes in a worker process, as it does in this one."""
    with contextlib.suppress(OSError, ValueError):  # its reader has ended, or the disk is full: results go on
        stream = own_stderr()
        stream.write(text.decode("utf-8", "replace"))
        stream.flush()


class InProcess(Executor):
    """One chunk at a time, item by item, here.

    Args:
        group: the processes that run every item together; None where this one is alone.
    """

    slots = 1

    def __init__(self, work: Work[Any], group: LockstepGroup | None = None) -> None:
        self._work, self._group = work, group
        self._waiting: deque[Chunk] = deque()

    def submit(self, chunk: Chunk) -> None:
        """Have a chunk run at the next call of `events`."""
        self._waiting.append(chunk)

    def events(self, seconds: float) -> Iterator[tuple[int, Event | Ended]]:
        """Run the chunk; each event comes when it happens.

        Raises:
            CouldNotRun: a device no longer works.
            RunEnded: the same where several processes run together.
        """
        while self._waiting:
            chunk = self._waiting.popleft()
            under_way: list[str] = []
            for event in self._work.events(chunk.items, chunk.ahead):
                if isinstance(event, Started):
                    under_way.append(event.key)
                if isinstance(event, Finished | Trouble) and (failure := device_failure()):
                    self._end(_words(chunk, event, under_way), failure)
                if isinstance(event, Finished):
                    under_way = [key for key in under_way if key != event.key]
                yield chunk.number, event
            yield chunk.number, Ended()

    def _end(self, words: str, failure: str) -> NoReturn:
        """End the run before a result counts that came with it."""
        if self._group is not None:
            raise RunEnded(self._group.end(f"process {self._group.number}: {words}: {failure}"))
        raise CouldNotRun(
            f"{words}: {failure}; it and what comes after need a new process (without --in-process, they get one)"
        )

    def kill(self, number: int, loss: ProcessExit) -> None:
        """Not possible: this process is the one that runs it."""

    def close(self) -> None:
        """Drop what is cached."""
        self._work.close()


def _words(chunk: Chunk, event: Finished | Trouble, under_way: list[str]) -> str:
    """Return what was under way: the pair, or the item and those that had been traced ahead."""
    if isinstance(event, Trouble):
        return event.pair
    words = next(item.words for item in chunk.items if item.key == event.key)
    ahead = [item.words for item in chunk.items if item.key in under_way and item.key != event.key]
    return f"{words} (or what was traced ahead, from {ahead[0]} on)" if ahead else words
