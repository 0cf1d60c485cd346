"""Runs chunks as tasks of a Ray cluster: nodes come and go, and each chunk has a fresh process on one of them."""

from __future__ import annotations

import contextlib
import os
import pickle
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from samebits.cluster.ray_connection import RayCluster
from samebits.cluster.ray_node import MESSAGES, Begun, Differs, DriverSite, Held, Message, Output, Over, run_chunk
from samebits.engine.work import Chunk, Ended, Event, Executor, ProcessExit, Work
from samebits.errors import CouldNotRun, RequestError
from samebits.host.fingerprint import MachineFingerprint, fingerprint
from samebits.host.installed import is_installed

LOOK = 1.0
"""Seconds between two looks at the nodes of the cluster."""

EMPTY = 300.0
"""Seconds for which a cluster may have no node for a task, as while an autoscaler replaces one."""

GENTLE = 10.0
"""Seconds in which a task that was cancelled must end; then its worker process is killed."""

FETCH = 60.0
"""Seconds in which a message that is there must have come."""


@dataclass(slots=True)
class _Task:
    """A chunk that has not ended.

    Args:
        chunk: what it runs.
        messages: Ray's generator of references.
        host: of its node, once it has one.
        held: the memory of its process.
        killed, since: why it must end, and when that was asked of it last.
        cancelled, forced: whether Ray was asked to end it, and its worker was killed.
    """

    chunk: Chunk
    messages: Any
    host: str | None = None
    held: int | None = None
    killed: ProcessExit | None = None
    since: float = 0.0
    cancelled: bool = False
    forced: bool = False


class RayExecutor(Executor):
    """Chunks as tasks of a cluster.

    A worker process of Ray that ends before its task does says nothing of the chunk, which runs in a process of its
    own: it counts as a node that is lost, and the driver has the rest of the chunk run again.

    Args:
        work: what is done; pickled.
        cluster: where; closed with the executor.
        forward: called with what the user's code writes to stdout and stderr there.
        seconds: that an item may take; its node ends it then, and says where it was. None: the driver alone does.
        clock: seconds.
    """

    def __init__(
        self,
        work: Work[Any],
        cluster: RayCluster,
        forward: Callable[[bytes], None],
        seconds: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        import ray

        self._work, self._cluster, self._forward, self._clock = work, cluster, forward, clock
        self._here = fingerprint(cluster.request.folders)
        self._site = site_of(cluster, self._here.digest(), seconds)
        self._remote = ray.remote(**cluster.options())(run_chunk)
        self._tasks: dict[int, _Task] = {}
        self._first: tuple[str, str] | None = None
        self._looked = self._full = clock()
        self._room = cluster.room()

    @property
    def slots(self) -> int:  # type: ignore[override]
        """As many as there is room for, and some more in Ray's queue: for those an autoscaler adds nodes."""
        most = self._cluster.request.workers
        slots = self._room + max(self._room // 8, 1) if self._room else 0
        return slots if most is None else min(slots, most)

    def submit(self, chunk: Chunk) -> None:
        """Have a chunk run on some node."""
        self._tasks[chunk.number] = _Task(chunk, self._remote.remote(self._site, pickle.dumps((self._work, chunk))))

    def events(self, seconds: float) -> Iterator[tuple[int, Event | Ended]]:
        """Yield what the tasks have said since the last call.

        Raises:
            RequestError: a node has other versions or sources than this machine, another processor than the other
                nodes, or cannot run samebits.
            CouldNotRun: the cluster has had no node for some time.
        """
        import ray

        self._look_at_nodes()
        if not self._tasks:
            time.sleep(min(seconds, 0.05))
            return
        by_messages = {task.messages: task for task in self._tasks.values()}
        ready, _ = ray.wait(list(by_messages), num_returns=1, timeout=seconds)
        if ready:
            ready, _ = ray.wait(list(by_messages), num_returns=len(by_messages), timeout=0)
        for messages in ready:
            yield from self._take(by_messages[messages])
        self._kill_what_stays()

    def kill(self, number: int, loss: ProcessExit) -> None:
        """Cancel a task: it ends its process, and is itself ended where it does not.

        Where an item takes too long, its node is about to say so.
        """
        task = self._tasks.get(number)
        if task is not None and task.killed is None:
            task.killed, task.since = loss, self._clock()
            if loss.kind != "timeout" or self._site.seconds is None:
                self._cancel(task)

    def _cancel(self, task: _Task) -> None:
        import ray

        task.cancelled, task.since = True, self._clock()
        ray.cancel(task.messages, force=False)

    def memory(self, number: int) -> int | None:
        """Return what the task last reported."""
        task = self._tasks.get(number)
        return None if task is None else task.held

    def queued(self, number: int) -> bool:
        """Return whether a task has no node yet."""
        task = self._tasks.get(number)
        return task is not None and task.host is None

    def close(self) -> None:
        """Cancel all tasks, and end the connection."""
        import ray

        for number, task in self._tasks.items():
            self.kill(number, ProcessExit(kind="exit", text="the run was ended"))
            if not task.cancelled:
                self._cancel(task)
        try:
            with contextlib.suppress(ray.exceptions.RayError):
                self._drain(self._clock() + GENTLE)
            with contextlib.suppress(ray.exceptions.RayError):
                for task in self._tasks.values():
                    ray.cancel(task.messages, force=True)
        finally:
            self._tasks.clear()
            self._cluster.close()

    def _drain(self, until: float) -> None:
        """Wait until all tasks have ended, or that long."""
        import ray

        while self._tasks and self._clock() < until:
            for messages in ray.wait([task.messages for task in self._tasks.values()], timeout=0.5)[0]:
                for task in [task for task in self._tasks.values() if task.messages is messages]:
                    try:
                        for _ in self._take(task):
                            pass
                    except RequestError:  # its node differs, which changes nothing any more
                        self._tasks.pop(task.chunk.number, None)

    def _take(self, task: _Task) -> Iterator[tuple[int, Event | Ended]]:
        """Yield what the next message of a task says, which is there."""
        import ray

        number = task.chunk.number
        try:
            messages = MESSAGES.decode(ray.get(next(task.messages), timeout=FETCH))
        except StopIteration:
            messages = [Over(ProcessExit(kind="node", text="its task ended without saying so"))]
        except (ray.exceptions.RayError, TimeoutError) as error:
            messages = [Over(self._loss(task, error))]
        for message in messages:
            event = self._understood(task, message)
            if isinstance(event, Ended):
                del self._tasks[number]
            if event is not None:
                yield number, event

    def _understood(self, task: _Task, message: Message) -> Event | Ended | None:
        """Return what the driver needs of a message."""
        if isinstance(message, Begun):
            task.host = message.host
            host, processor = self._first = self._first or (message.host, message.processor)
            if processor != message.processor:
                raise RequestError(not_alike(host, message.host, "processor", processor, message.processor))
        elif isinstance(message, Differs):
            raise RequestError(differs(message.host, self._here, message.there))
        elif isinstance(message, Held):
            task.held = message.size
        elif isinstance(message, Output):
            self._forward(message.text)
        elif isinstance(message, Over):
            if message.loss is None or task.killed is None:
                return Ended(message.loss)
            return Ended(replace(task.killed, last_words=message.loss.last_words))
        else:
            return message
        return None

    def _loss(self, task: _Task, error: Exception) -> ProcessExit:
        """Explain why a task ended that has not said so itself."""
        import ray

        if task.killed is not None:
            return task.killed
        where = f"on node {task.host}" if task.host else "before it had a node"
        if isinstance(error, ray.exceptions.OutOfMemoryError):
            return ProcessExit(kind="memory", text=f"the memory of the node ran out {where}, and Ray ended the task")
        if isinstance(error, ray.exceptions.RayTaskError | ray.exceptions.RuntimeEnvSetupError):
            raise RequestError(f"a task cannot run {where}: {last_line(error)}") from None
        return ProcessExit(kind="node", text=f"its worker was lost {where} ({type(error).__name__})")

    def _look_at_nodes(self) -> None:
        now = self._clock()
        if now - self._looked >= LOOK:
            self._looked, self._room = now, self._cluster.room()
        if self._room:
            self._full = now
        elif now - self._full > EMPTY:
            listed = ", ".join(f"{name}: {amount:g}" for name, amount in self._cluster.task.items())
            raise CouldNotRun(
                f"the cluster has had no node with {listed} for {EMPTY:g} s; the journal has what was done"
            )

    def _kill_what_stays(self) -> None:
        import ray

        for task in self._tasks.values():
            if task.killed is None or task.forced or self._clock() - task.since <= GENTLE:
                continue
            if not task.cancelled:
                self._cancel(task)
            else:
                task.forced = True
                ray.cancel(task.messages, force=True)


def site_of(cluster: RayCluster, digest: str | None, seconds: float | None = None) -> DriverSite:
    """Return what the nodes of a cluster need from this process.

    Args:
        cluster: with its request.
        digest: of this machine's fingerprint; None where nodes are only asked for theirs.
        seconds: that an item may take.
    """
    variables = cluster.request.environment(os.environ)
    if "OMP_NUM_THREADS" in os.environ:
        variables["OMP_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"]
    return DriverSite(
        folder=os.getcwd(),
        paths=_own_paths(),
        variables=variables,
        digest=digest,
        folders=cluster.request.folders,
        task=cluster.task,
        seconds=seconds,
    )


def _own_paths() -> tuple[str, ...]:
    """Return the entries of Python's path outside its installation, which has other folders on other machines."""
    scripts = os.path.realpath(sysconfig.get_path("scripts"))  # where the command `samebits` itself lies
    absolute = (os.path.realpath(path) for path in sys.path)
    folders = (path for path in absolute if os.path.isdir(path) and path != scripts)
    return tuple(path for path in folders if not is_installed(os.path.join(path, "")))


def differs(host: str, here: MachineFingerprint, there: MachineFingerprint) -> str:
    """Return the line about a node that is not as this machine is."""
    return (
        f"node {host} differs from this machine: {here.difference(there)}. Results of both cannot stand in one "
        "document: install the same versions on all nodes, and have the same files under the same path, for instance "
        "by `ray job submit --working-dir . -- samebits check --ray auto`"
    )


def not_alike(first: str, second: str, what: str, before: str, after: str) -> str:
    """Return the line about two nodes of different kinds."""
    return (
        f"nodes {first} and {second} are not alike: {what} {before} and {after}. Bits depend on it, and one document "
        "has one environment: use nodes of one kind, by a nodeSelector or by --ray-task with a resource "
        "that only they have"
    )


def last_line(error: Exception) -> str:
    """Return the last line of an error with a traceback."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
