"""Runs all of the work: what is already known is taken from the journal and the cache, the rest is executed."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec

from samebits.engine.drive import TIMEOUT, Done, Limits, drive
from samebits.engine.journal import Journal
from samebits.engine.ray_request import RayRequest
from samebits.engine.shard import Shard
from samebits.engine.work import Executor, Item, Work
from samebits.errors import RequestError
from samebits.host.accelerator import expected_platform
from samebits.host.group import LockstepGroup
from samebits.host.memory import GIB, gibibytes, memory_limit_per_worker
from samebits.host.own_output import own_stderr
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
        fresh: whether remembered results are ignored.
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


class Store(Protocol):
    """What remembers rows between runs."""

    def cache_key(self, item: Item) -> str | None:
        """Return a digest of everything that the rows of an item depend on; None where it is not known."""

    def recall(self, cache_key: str) -> tuple[msgspec.Raw, ...] | None:
        """Return the rows of an earlier run."""

    def recalled_dependencies(self, cache_key: str) -> tuple[tuple[str, str], ...]:
        """Return what the rows that were recalled rest on, as `dependencies` said it then."""

    def dependencies(self, cache_key: str, done: Done[Any]) -> tuple[tuple[str, str], ...] | None:
        """What an item that has run read meanwhile, with digests; None where its rows hold for this run alone."""

    def holds(self, dependencies: Iterable[tuple[str, str]]) -> bool:
        """Return whether everything that was read is as it was."""

    def remember(self, cache_key: str, done: Done[Any]) -> None:
        """Remember the rows of an item that has run."""

    def forget(self, cache_key: str) -> None:
        """Remove what an earlier run remembered of an item that has run, since its new rows are not remembered."""


class Unremembered:
    """A store without any results."""

    def cache_key(self, item: Item) -> str | None:
        """Return None, as nothing is known of what rows depend on."""
        return None

    def recall(self, cache_key: str) -> tuple[msgspec.Raw, ...] | None:
        """Return no rows."""
        return None

    def recalled_dependencies(self, cache_key: str) -> tuple[tuple[str, str], ...]:
        """Return nothing, as nothing is recalled."""
        return ()

    def dependencies(self, cache_key: str, done: Done[Any]) -> tuple[tuple[str, str], ...] | None:
        """Return nothing besides what its cache key is made of."""
        return ()

    def holds(self, dependencies: Iterable[tuple[str, str]]) -> bool:
        """Return whether nothing was read, of which alone something is known."""
        return not list(dependencies)

    def remember(self, cache_key: str, done: Done[Any]) -> None:
        """Nothing."""

    def forget(self, cache_key: str) -> None:
        """Nothing is remembered."""


def run_work(
    work: Work[Row],
    items: Sequence[Item],
    settings: EngineSettings,
    *,
    on_problem: Callable[[Problem], None],
    journal: Journal | None = None,
    store: Store | None = None,
) -> Generator[Done[Row]]:
    """Yield every item with its rows, in the order in which they are known; closing the iterator ends all processes.

    Args:
        work: what is done.
        items: all of them, the shard's among others.
        settings: where and how.
        on_problem: called once with each pair that cannot run at all.
        journal: where results are written at once.
        store: what remembers results between runs.
    """
    store = store or Unremembered()
    items = settings.shard.of(items) if settings.shard is not None else items
    cache_keys = {item.key: store.cache_key(item) for item in items}
    rest: list[Item] = []
    for item in items:
        rows, from_journal = _known(item, cache_keys[item.key], journal, store)
        if rows is None:
            rest.append(item)
            continue
        if journal is not None and not from_journal:
            cache_key = cache_keys[item.key]
            journal.add(item.key, cache_key, rows, () if cache_key is None else store.recalled_dependencies(cache_key))
        yield Done(item, tuple(msgspec.json.decode(row, type=work.row) for row in rows), rows, recalled=True)
    if journal is not None:
        journal.sync()
    if not rest:
        return
    executor, synced = executor_of(work, len(rest), settings), time.monotonic()
    with contextlib.closing(executor):
        limits = Limits(seconds=settings.seconds, bytes=settings.bytes)
        for done in drive(work, rest, executor, limits=limits, on_problem=on_problem):
            cache_key = cache_keys[done.item.key]
            dependencies = None if cache_key is None or done.lost else store.dependencies(cache_key, done)
            if journal is not None:
                journal.add(
                    done.item.key, None if dependencies is None else cache_key, done.encoded, dependencies or ()
                )
                if time.monotonic() - synced > SYNC:
                    journal.sync()
                    synced = time.monotonic()
            if cache_key is not None and dependencies is not None:
                store.remember(cache_key, done)
            elif cache_key is not None:
                store.forget(cache_key)
            yield done


def _known(
    item: Item, cache_key: str | None, journal: Journal | None, store: Store
) -> tuple[tuple[msgspec.Raw, ...] | None, bool]:
    """Return the rows of an item that need no run, and whether the journal has them."""
    if cache_key is None:
        return None, False
    entry = journal.before.entries.get(item.key) if journal is not None else None
    if journal is not None and entry is not None and entry.cache_key == cache_key and store.holds(entry.dependencies):
        journal.taken += 1
        return entry.rows, True
    return store.recall(cache_key), False


def usual_settings(*, workers: int | None, seconds: float | None, limit: int | None) -> EngineSettings:
    """Return settings of worker processes, with a limit of memory from what this machine or container has.

    Args:
        workers: how many; None for one per processor.
        seconds: after which an item is ended; None for the usual time.
        limit: of a process, in bytes; None for a share of the memory.

    Raises:
        RequestError: so many processes have too little memory each.
    """
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
    """Return where the work runs.

    Args:
        work: what is done.
        items: how many there are; no more processes are started.
        settings: what was asked for.
    """
    if settings.in_process:
        from samebits.engine.in_process import InProcess

        return InProcess(work, settings.group)
    if settings.ray is not None:
        cluster = door("cluster.ray_connection").connect(settings.ray)
        executor: Executor = door("cluster.ray_cluster").RayExecutor(work, cluster, _forward, settings.seconds)
        return executor
    from samebits.engine.worker_processes import WorkerProcesses

    return WorkerProcesses(work, max(min(settings.processes, items), 1), _forward)


def default_workers() -> int:
    """How many worker processes there are by default: one where they would need a TPU, which belongs to one process."""
    return 1 if expected_platform() == "tpu" else min(usable_processors(), MOST_WORKERS)


def _forward(text: bytes) -> None:
    """What user code writes in a worker process goes to stderr, as it does in this one."""
    with contextlib.suppress(OSError, ValueError):  # its reader has ended, or the disk is full: results go on
        stream = own_stderr()
        stream.write(text.decode("utf-8", "replace"))
        stream.flush()
