"""A sweep on worker processes: each worker takes the next chunk of points and sends every result as it is ready.

Not `concurrent.futures`: its workers answer once per task, outlive an interrupted parent, and take all results of a
pool with them when one of them dies.
"""

from __future__ import annotations

import os
import signal
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any, cast

import jax

from samebits.check.run_points import run_points
from samebits.errors import SamebitsError
from samebits.host import environment
from samebits.host.isolation import note, take_notes
from samebits.programs.catalogue import Locator, load
from samebits.programs.plan import LoadedPair
from samebits.programs.program_cache import Programs
from samebits.schema.point import USUAL, Effort, Point
from samebits.schema.result import Problem, Result
from samebits.user_errors import one_line, retain, retain_text, take_tracebacks

CHUNK = 48
"""Points given to a worker at a time; they share a pair, and mostly their reference programs."""

Chunk = tuple[Locator, tuple[Point, ...]]


@dataclass(frozen=True, slots=True)
class _Traceback:
    """Of an exception of the user's code, as text: an exception itself may not travel."""

    text: str


@dataclass(slots=True)
class _Worker:
    process: SpawnProcess
    chunk: Chunk | None = None


def sweep_on_workers(
    loaded: Sequence[LoadedPair], workers: int, on_problem: Callable[[Problem], None], effort: Effort = USUAL
) -> Iterator[Result]:
    """All results of a sweep in the order in which workers have them; closing the iterator ends the workers.

    Args:
        loaded: pairs with their plans.
        workers: how many processes.
        on_problem: called once with each pair that turns out not to run, and with a worker process that ended.
        effort: how hard each point is tried.
    """
    chunks: deque[Chunk] = deque(
        (item.locator, item.plan.points[start : start + CHUNK])
        for item in loaded
        for start in range(0, len(item.plan.points), CHUNK)
    )
    reported: set[str] = set()
    team = _start_workers(min(workers, len(chunks)), effort)
    try:
        for connection, worker in team.items():
            _send_chunk(connection, worker, chunks)
        while team:
            for ready in wait(list(team)):
                connection = cast("Connection[Any, Any]", ready)
                worker = team[connection]
                try:
                    message = connection.recv()
                except (EOFError, OSError):
                    del team[connection]
                    message = _ended_early(worker)
                if isinstance(message, Problem):
                    if message.pair not in reported:
                        reported.add(message.pair)
                        on_problem(message)
                elif isinstance(message, Result):
                    yield message
                elif isinstance(message, str):
                    note(message)
                elif isinstance(message, _Traceback):
                    retain_text(message.text)
                elif connection in team and not _send_chunk(connection, worker, chunks):
                    del team[connection]
        for name in dict.fromkeys(locator.name for locator, _ in chunks):
            on_problem(Problem(pair=name, message="not run to its end: no worker process is left", exit_code=3))
    finally:
        for connection, worker in team.items():
            worker.process.terminate()
            connection.close()


def _start_workers(count: int, effort: Effort) -> dict[Connection[Any, Any], _Worker]:
    # Fresh interpreters: a forked child would inherit jax's threads without their locks.
    context = get_context("spawn")
    devices = len(jax.devices()) if jax.default_backend() == "cpu" else None
    platform = os.environ.get("JAX_PLATFORMS")
    team: dict[Connection[Any, Any], _Worker] = {}
    for _ in range(count):
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(theirs, devices, platform, effort), daemon=True)
        process.start()
        theirs.close()  # else its end would never be seen
        team[ours] = _Worker(process)
    return team


def _send_chunk(connection: Connection[Any, Any], worker: _Worker, chunks: deque[Chunk]) -> bool:
    """Send a worker its next chunk, or the signal to end; whether there was a chunk."""
    worker.chunk = chunks.popleft() if chunks else None
    try:
        connection.send(worker.chunk)
    except OSError:
        return worker.chunk is not None  # it died; reading from it will say so
    return worker.chunk is not None


def _ended_early(worker: _Worker) -> Problem:
    worker.process.join(5)
    name = worker.chunk[0].name if worker.chunk else "?"
    how = worker.process.exitcode
    cause = signal.Signals(-how).name if how is not None and how < 0 else f"exit code {how}"
    message = (
        f"pair '{name}': a worker process died ({cause}) and took the results of its chunk with it; try --workers 1"
    )
    return Problem(pair=name, message=message, exit_code=3)


def _work(connection: Connection[Any, Any], devices: int | None, platform: str | None, effort: Effort) -> None:
    # Ctrl-C reaches the whole process group; the parent decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.dup2(2, 1)  # results go through the connection; what the user's code prints must not reach the report
    environment.prepare(devices=devices, platform=platform)
    programs = Programs()
    before: Locator | None = None
    try:
        while (chunk := cast("Chunk | None", connection.recv())) is not None:
            locator, points = chunk
            try:
                if before is not None and locator != before:
                    programs.forget(load(before).name)
                before = locator
                for result in run_points(load(locator), locator, points, programs, effort):
                    connection.send(result)
            except SamebitsError as error:
                retain(error.__cause__)
                connection.send(Problem(pair=locator.name, message=str(error), exit_code=error.exit_code))
            except OSError:
                raise
            except Exception as error:
                connection.send(Problem(pair=locator.name, message=f"samebits itself {one_line(error)}", exit_code=3))
            for text in take_notes():
                connection.send(text)
            for text in take_tracebacks():
                connection.send(_Traceback(text))
            connection.send(None)
    except (EOFError, OSError):
        pass  # the parent is gone
    finally:
        programs.close()
