"""The part of a run on Ray that runs on the nodes: a task has a fresh process run a chunk, and passes on its events.

The chunk does not run in Ray's own worker process. Of a worker that crashed, Ray reports only that it did, and the
worker's last output may be lost; of a process of `WorkerProcesses`, the signal, the memory and the last output are
known, and jax has the process for itself.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import platform
import socket
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from samebits.engine.drive import START
from samebits.engine.work import Chunk, Ended, Event, Finished, ProcessExit, Started, Work
from samebits.engine.worker_processes import WorkerProcesses
from samebits.host.accelerator import gpu_models
from samebits.host.fingerprint import MachineFingerprint, fingerprint
from samebits.host.memory import gibibytes, memory_limit_per_worker
from samebits.host.processors import instruction_sets

PACE = 0.25
"""At least so many seconds lie between two messages, so that a thousand tasks do not flood the driver."""

MEMORY_PACE = 1.0
"""Seconds between two looks at the memory of the process."""


class Begun(msgspec.Struct, frozen=True, tag="begun"):
    """A task has a node.

    Args:
        host: the node's name.
        processor: its architecture and instruction sets, by which XLA chooses code, and the models of its GPUs where
            the task has one.
    """

    host: str
    processor: str


class Differs(msgspec.Struct, frozen=True, tag="differs"):
    """The node has other versions or sources than the driver; nothing was run."""

    host: str
    there: MachineFingerprint


class Held(msgspec.Struct, frozen=True, tag="held"):
    """How many bytes the process holds."""

    size: int


class Output(msgspec.Struct, frozen=True, tag="output"):
    """What the user's code wrote to stdout and stderr."""

    text: bytes


class Over(msgspec.Struct, frozen=True, tag="over"):
    """The process is done with the chunk; `loss` where it ended before."""

    loss: ProcessExit | None


Message = Event | Begun | Differs | Held | Output | Over
"""What a task says."""

MESSAGES = msgspec.json.Decoder(list[Message])
"""Reads what `run_chunk` yields."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DriverSite:
    """What a node needs from the driver.

    Args:
        folder: the driver's current folder.
        paths: entries of the driver's Python path outside its installation.
        variables: of the environment.
        digest: of the driver's fingerprint; None where the node is only asked for its own.
        folders: the user's trees.
        task: resources of each task, by Ray's name.
        seconds: that an item may take there; None where only the driver watches.
    """

    folder: str
    paths: tuple[str, ...]
    variables: Mapping[str, str]
    digest: str | None
    folders: tuple[str, ...]
    task: Mapping[str, float]
    seconds: float | None = None


def run_chunk(site: DriverSite, pickled: bytes) -> Iterator[bytes]:
    """Run a chunk in a fresh process of this node.

    Args:
        site: what the node needs from the driver.
        pickled: work and chunk; read when Python's path is that of the driver.

    Yields:
        Messages, encoded for `MESSAGES`.
    """
    host, tasks = _this_node(site.task)
    models = gpu_models() if site.task.get("GPU") else ()
    processor = " ".join([platform.machine(), "/".join(instruction_sets()), *models])
    yield msgspec.json.encode([Begun(host, processor)])
    if site.digest is not None:
        there = fingerprint(site.folders)
        if there.digest() != site.digest:
            yield msgspec.json.encode([Differs(host, there)])
            return
    _settle(site)
    work, chunk = pickle.loads(pickled)
    yield from _Relay(work, chunk, memory_limit_per_worker(tasks), site.seconds).messages()


class _Relay:
    """Passes on the events of a process, in few messages.

    Args:
        work, chunk: what it runs.
        limit: how many bytes it may hold, of what this node has.
        seconds: that an item may take. If the driver ended the task, its process could not report where it was.
    """

    def __init__(self, work: Work[Any], chunk: Chunk, limit: int, seconds: float | None) -> None:
        self._work, self._chunk, self._limit, self._seconds = work, chunk, limit, seconds
        self._running: set[str] = set()
        self._since = 0.0  # when the item that runs now began, or the one before it ended
        self._waiting: list[Message] = []
        self._looked = 0.0

    def messages(self) -> Iterator[bytes]:
        over, sent = False, 0.0
        processes = WorkerProcesses(self._work, 1, lambda text: self._waiting.append(Output(text)))
        with contextlib.closing(processes):
            processes.submit(self._chunk)
            self._since = time.monotonic() + START
            while not over:
                for _, event in processes.events(PACE):
                    over = over or isinstance(event, Ended)
                    self._waiting.append(Over(event.loss) if isinstance(event, Ended) else event)
                    self._note_progress(event)
                self._look_at_memory(processes)
                if not over and self._seconds is not None and time.monotonic() - self._since > self._seconds:
                    loss = ProcessExit(kind="timeout", text=f"more than {self._seconds:g} s")
                    processes.kill(self._chunk.number, loss)
                if self._waiting and (over or time.monotonic() - sent > PACE):
                    sent = time.monotonic()
                    yield self._taken()

    def _note_progress(self, event: Event | Ended) -> None:
        """Note since when the item has been running that is the oldest; others may be traced ahead of it."""
        if isinstance(event, Started):
            if not self._running:
                self._since = time.monotonic()
            self._running.add(event.key)
        elif isinstance(event, Finished):
            self._running.discard(event.key)
            self._since = time.monotonic()

    def _look_at_memory(self, processes: WorkerProcesses) -> None:
        if time.monotonic() - self._looked < MEMORY_PACE:
            return
        self._looked = time.monotonic()
        size = processes.memory(self._chunk.number)
        if size is None:
            return
        self._waiting.append(Held(size))
        if size > self._limit:
            text = f"{gibibytes(size)} of memory, more than its share of the node, {gibibytes(self._limit)}"
            processes.kill(self._chunk.number, ProcessExit(kind="memory", text=text))

    def _taken(self) -> bytes:
        text = msgspec.json.encode(self._waiting)
        self._waiting.clear()
        return text


def tasks_on(resources: Mapping[str, float], task: Mapping[str, float]) -> int:
    """Return how many tasks a node has room for."""
    # Ray counts in units of 1/10000; 1e-6 keeps 0.3 from going into 0.9 twice.
    return min((int(resources.get(name, 0.0) / amount + 1e-6) for name, amount in task.items()), default=0)


def node_name(facts: Mapping[str, Any]) -> str:
    """Return a node as messages name it: host and address."""
    return f"{facts['NodeManagerHostname']} ({facts['NodeManagerAddress']})"


def _this_node(task: Mapping[str, float]) -> tuple[str, int]:
    """Return the name of this node, and how many tasks share it."""
    import ray

    own = ray.get_runtime_context().get_node_id()
    for facts in ray.nodes():
        if facts["NodeID"] == own:
            return node_name(facts), max(tasks_on(facts["Resources"], task), 1)
    return socket.gethostname(), 1


def _settle(site: DriverSite) -> None:
    """Folder, Python's path and environment as the driver has them; the process of the chunk inherits all three."""
    if os.path.isdir(site.folder):  # where it is the tree, the fingerprints have shown that it is
        os.chdir(site.folder)
    sys.path[:] = [*site.paths, *(path for path in sys.path if path not in site.paths)]
    os.environ.update(site.variables)
    # A spawned process imports the main module of the one that starts it, which is Ray's, and with it all of Ray.
    vars(sys.modules["__main__"]).pop("__file__", None)
    # Ray limits the threads of NumPy's libraries to the CPUs of the task, which a run without Ray does not.
    if "OMP_NUM_THREADS" not in site.variables:
        os.environ.pop("OMP_NUM_THREADS", None)
