"""What a side asks about this process while it is traced for a target, and whether the target answers differently.

The answers of `jax.default_backend()` and `jax.device_count()` are those of the process that traces, whatever the
program is compiled for: a side that asks is another program on the target.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from weakref import WeakKeyDictionary, WeakSet

from samebits.compile.devices import devices
from samebits.programs.program_cache import Program
from samebits.programs.sides import TracedSides
from samebits.prove.mesh_queries import COUNTS, Query, mesh_queries, platform_of_process, process_queries
from samebits.schema.target import Target


class _WatchedPrograms:
    """What was watched in this process.

    Args:
        queries: of each program: one that is known already is not traced again.
        begun: whose first program was watched: code that ran before it, unwatched, may have left answers in caches.
    """

    def __init__(self) -> None:
        self.queries: WeakKeyDictionary[Program, tuple[Query, ...]] = WeakKeyDictionary()
        self.begun: WeakSet[TracedSides] = WeakSet()


_WATCHED = _WatchedPrograms()


def watched(sides: TracedSides, trace: Callable[[], Program]) -> tuple[Program, tuple[Query, ...]]:
    """Trace a side, and collect what it asks about the process.

    Args:
        sides: whose side it is; before its first one all caches that may hold answers are emptied.
        trace: traces it, or returns its program where that is known.
    """
    queries: list[Query]
    watching: AbstractContextManager[list[Query]] = process_queries() if sides in _WATCHED.begun else mesh_queries()
    with watching as queries:
        program = trace()
    _WATCHED.begun.add(sides)
    return program, _WATCHED.queries.setdefault(program, tuple(queries))


def other_answer(queries: Iterable[Query], target: Target) -> str | None:
    """Explain why a program is not the one of a target, in words; None where the target answers as this process does.

    Args:
        queries: of its code, while it was traced.
        target: what it is compiled for.
    """
    queries = tuple(queries)
    # The devices of a mesh are those of the target already: no process is asked for them.
    of_process = [query for query in queries if "devices" in query.asks or query.name == "default_backend"]
    platform = platform_of_process(of_process, target.platform)
    if platform is not None:
        return platform
    there = _counts(target)
    for query in of_process:
        if "devices" in query.asks and COUNTS[query.count]() != there[query.count]:
            return (
                f"{query.place} asks for {query.count} while it is traced, which is {COUNTS[query.count]()} here, and "
                f"{there[query.count]} on {target.name}"
            )
    return None


def _counts(target: Target) -> dict[str, int]:
    """Return the numbers of devices and processes of a target; a host of a TPU slice runs one process."""
    processes = [device.process_index for device in devices(target)]
    return {
        "jax.device_count()": len(processes),
        "jax.local_device_count()": processes.count(processes[0]),
        "jax.process_count()": len(set(processes)),
    }
