"""Runs chunks in worker processes of this machine; a process that crashes is replaced.

By pebble, one pool of one process for each slot. Not `concurrent.futures` and not loky: there a crash of one process
loses the tasks of all others, and a task that runs cannot be ended. What a process reports goes through a file of
its own, line by line: a pipe or a queue that it shares with others may be left locked or torn when it is killed.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError
from dataclasses import dataclass, replace
from multiprocessing.context import SpawnContext, SpawnProcess
from pathlib import Path
from typing import Any

import msgspec
from pebble import ProcessExpired, ProcessFuture, ProcessPool

from samebits.engine.journal import LineReader
from samebits.engine.last_words import last_words, without_stacks
from samebits.engine.work import (
    STACK_TIME,
    Chunk,
    Ended,
    Event,
    Executor,
    ProcessExit,
    Unusable,
    Work,
    signal_name,
)
from samebits.engine.worker_side import prepare, run_chunk
from samebits.errors import RequestError
from samebits.host.interrupts import withheld_from_children
from samebits.host.memory import kill_children, kill_rest_of_group, resident_bytes
from samebits.host.subprocesses import current_folder_ignored


# Starts the worker processes for pebble, and says how they ended.
class _FreshProcess(SpawnProcess):
    """A process that imports nothing from the current folder before it has the module path of this one."""

    def start(self) -> None:
        """As of any process."""
        with current_folder_ignored():
            super().start()


class FreshInterpreters(SpawnContext):
    """Starts fresh interpreters, and keeps the last ones: pebble may lose how its process ended.

    A forked child would inherit jax's threads without their locks.
    """

    def __init__(self) -> None:
        super().__init__()
        self.started: deque[SpawnProcess] = deque(maxlen=2)

    def Process(self, *args: Any, **keywords: Any) -> SpawnProcess:  # type: ignore[override]
        """Return the process that is to be started next; what pebble calls."""
        self.started.append(_FreshProcess(*args, **keywords))
        return self.started[-1]

    def exit_code(self, pid: int | None) -> int | None:
        """Return how one of them ended; None where that is not known."""
        for process in self.started:
            if process.pid is not None and process.pid == pid:
                process.join(timeout=2)  # its end may be on its way
                return process.exitcode
        return None


PAUSE = 0.02
"""Seconds between two looks at the files of the processes."""

TAIL = 8000
"""How many bytes of stderr are looked through for the reason of an end."""

PIECE = 1 << 20
"""How many bytes of what a process writes are in memory at a time."""

_EVENTS = msgspec.json.Decoder(Event | Unusable)


@dataclass(slots=True)
class _Slot:
    """A pool of one process, and the chunk that it runs.

    Args:
        context: that starts its processes.
        errors: what the process writes to stdout and stderr.
        pid: once the chunk has begun.
        used: whether the process has run a chunk before.
        killed: why we have ended the process, or it has itself.
        forwarded: how many bytes of `errors` were read.
        begun: how many there were before the chunk.
        rest: what was read of a line that has not ended yet.
        dumped: whether the process has begun to write its stacks.
    """

    context: FreshInterpreters
    pool: ProcessPool
    errors: Path
    chunk: Chunk | None = None
    future: ProcessFuture[None] | None = None
    reader: LineReader | None = None
    pid: int | None = None
    used: bool = False
    killed: ProcessExit | None = None
    forwarded: int = 0
    begun: int = 0
    rest: bytes = b""
    dumped: bool = False


class WorkerProcesses(Executor):
    """Chunks in processes of this machine.

    Args:
        work: what is done; pickled.
        slots: how many processes, at least 1.
        forward: called with what the user's code writes to stdout and stderr there.
    """

    head_start = 3.0  # importing jax takes one to two seconds of a processor

    def __init__(self, work: Work[Any], slots: int, forward: Callable[[bytes], None]) -> None:
        self.slots = slots
        with _named_failure("TMPDIR names the folder of its files"):
            self._folder = tempfile.TemporaryDirectory(prefix="samebits-", ignore_cleanup_errors=True)
        self._forward = forward
        self._work = work
        self._slots = [self._slot(FreshInterpreters(), Path(self._folder.name) / f"stderr-{n}") for n in range(slots)]

    def _slot(self, context: FreshInterpreters, errors: Path) -> _Slot:
        return _Slot(context, self._pool(context, errors), errors)

    def _pool(self, context: FreshInterpreters, errors: Path) -> ProcessPool:
        return ProcessPool(max_workers=1, initializer=prepare, initargs=(self._work, str(errors)), context=context)

    def submit(self, chunk: Chunk) -> None:
        """Have a chunk run in a free process."""
        slot = min((slot for slot in self._slots if slot.chunk is None), key=lambda slot: chunk.fresh and slot.used)
        if chunk.fresh and slot.used:
            self._replace_process(slot)
        path = Path(self._folder.name) / f"chunk-{chunk.number}"
        slot.chunk, slot.reader, slot.pid, slot.killed = chunk, LineReader(path), None, None
        slot.begun, slot.dumped = slot.forwarded, False
        # The first chunk starts the process, and the threads that start its successors.
        with withheld_from_children(), _named_failure("its semaphores are in /dev/shm"):
            slot.future = slot.pool.schedule(run_chunk, args=(chunk, str(path)))

    def events(self, seconds: float) -> Iterator[tuple[int, Event | Ended]]:
        """Yield what the processes have said since the last call."""
        until = time.monotonic() + seconds
        while True:
            news = [event for slot in self._slots if slot.chunk is not None for event in self._look(slot)]
            yield from news
            if news or time.monotonic() > until or all(slot.chunk is None for slot in self._slots):
                return
            time.sleep(PAUSE)

    def kill(self, number: int, loss: ProcessExit) -> None:
        """End the process of a chunk."""
        for slot in self._slots:
            if slot.chunk is not None and slot.chunk.number == number and slot.killed is None:
                slot.killed = loss
                if slot.pid is not None:
                    _kill(slot.pid, stacks=True)
                elif slot.future is not None:
                    slot.future.cancel()

    def memory(self, number: int) -> int | None:
        """Return how many bytes the process of a chunk holds."""
        pid = next((slot.pid for slot in self._slots if slot.chunk is not None and slot.chunk.number == number), None)
        return None if pid is None else resident_bytes(pid)

    def close(self) -> None:
        """End all processes at once; what they had not said is lost."""
        for slot in self._slots:
            if slot.pid is not None:
                _kill(slot.pid)
        for slot in self._slots:
            slot.pool.stop()
            slot.pool.join()
            _end_left_by(slot)
            self._pass_on(slot, ended=True)
            del slot.pool  # the slot itself may live on, in the traceback of an interruption
        self._folder.cleanup()
        self._slots.clear()
        gc.collect()  # the semaphores of pools are released with them; a process that ends at once would leave them

    def _look(self, slot: _Slot) -> Iterator[tuple[int, Event | Ended]]:
        """Yield the new events of one slot; empties it where its chunk has ended."""
        chunk, future, reader = slot.chunk, slot.future, slot.reader
        assert chunk is not None and future is not None and reader is not None
        done = future.done() or self._vanished(slot)  # before reading: what it wrote last must not be missed
        for line in reader.new():
            if slot.pid is None:
                slot.pid = int(line)
                if slot.killed is not None:
                    _kill(slot.pid)
                continue
            slot.dumped = False  # it goes on: the stack was the user's own
            event = _EVENTS.decode(line)
            if isinstance(event, Unusable):
                slot.killed = slot.killed or ProcessExit(kind=event.kind, text=event.text)
            else:
                yield chunk.number, event
        words = self._pass_on(slot, ended=done)
        if not done:
            return
        ended = Ended(self._loss(slot, future, words), slot.used)
        if ended.loss is not None and not _is_replaced(future):
            self._replace_process(slot)
        slot.chunk, slot.used = None, ended.loss is None
        if ended.loss is not None:
            _end_left_by(slot)
            slot.pid = None  # the system may give its number to another process
        reader.path.unlink(missing_ok=True)
        yield chunk.number, ended

    def _replace_process(self, slot: _Slot) -> None:
        slot.pool.stop()
        slot.pool.join()
        _end_left_by(slot)
        slot.pool, slot.used, slot.pid = self._pool(slot.context, slot.errors), False, None

    def _vanished(self, slot: _Slot) -> bool:
        """Whether the process is gone and its future waits for ever: pebble takes exit code 0 for an orderly end."""
        if slot.pid is None:
            return False
        try:
            os.kill(slot.pid, 0)
        except (ProcessLookupError, PermissionError):  # there is none, or its number is another user's by now
            return True
        return False

    def _loss(self, slot: _Slot, future: ProcessFuture[None], words: str) -> ProcessExit | None:
        error: BaseException | None = None
        if not future.done():
            with contextlib.suppress(TimeoutError):
                future.exception(timeout=2)  # pebble may not have recorded its exit yet
        if not future.done():
            return slot.killed or ProcessExit(kind="exit", text="exit code 0", last_words=words)
        try:
            error = future.exception()
        except CancelledError as cancelled:
            error = cancelled
        if error is None:
            return None
        if slot.killed is not None:
            return replace(slot.killed, last_words=words)
        code = slot.context.exit_code(slot.pid) if _is_broken(future) else None
        if isinstance(error, ProcessExpired):
            code = error.exitcode or 0
        if code is None:
            return ProcessExit(kind="exit", text=f"{type(error).__name__}: {error}", last_words=words)
        if code < 0:
            return ProcessExit(kind="signal", text=signal_name(-code), last_words=words)
        return ProcessExit(kind="exit", text=f"exit code {code}", last_words=words)

    def _pass_on(self, slot: _Slot, *, ended: bool) -> str:
        """Forward what the process has written since the last time, in pieces; return why it ended, if it did."""
        while True:
            try:
                with slot.errors.open("rb") as file:
                    begin = max(slot.forwarded - TAIL, slot.begun)
                    file.seek(begin)
                    before = file.read(slot.forwarded - begin)
                    text = file.read(PIECE)
            except OSError:  # the process has written nothing yet
                return ""
            slot.forwarded += len(text)
            last = len(text) < PIECE
            self._forward_lines(slot, text, ended and last)
            if last:
                return last_words(before + text)

    def _forward_lines(self, slot: _Slot, text: bytes, ended: bool) -> None:
        """Forward whole lines, up to the first stack: what is read may end within a character, or within a stack."""
        text = slot.rest + text
        cut = len(text) if ended or len(text) > TAIL else text.rfind(b"\n") + 1
        lines, slot.rest = text[:cut], text[cut:]
        if slot.dumped:
            return
        theirs = without_stacks(lines)
        slot.dumped = len(theirs) < len(lines)
        if theirs:
            self._forward(theirs)


def _is_broken(future: ProcessFuture[None]) -> bool:
    """Return whether a pool has ended with its process; pebble does so where the process has not reported its start."""
    return future.done() and not future.cancelled() and isinstance(future.exception(), BrokenExecutor)


def _is_replaced(future: ProcessFuture[None]) -> bool:
    """Whether pebble starts another process by itself: not where this one raised, or pebble waits for it for ever."""
    return future.done() and not future.cancelled() and isinstance(future.exception(), ProcessExpired)


def _end_left_by(slot: _Slot) -> None:
    """End the programs that the user's code left running in a process that has ended."""
    if slot.pid is not None:
        kill_rest_of_group(slot.pid)


def _kill(pid: int, *, stacks: bool = False) -> None:
    """End a process, and what the user's code has started in it.

    Args:
        pid: of the process.
        stacks: whether it first writes where it is.
    """
    with contextlib.suppress(OSError):  # it has ended by itself meanwhile
        if stacks:
            os.kill(pid, signal.SIGUSR1)
            time.sleep(STACK_TIME)
        kill_children(pid)
        os.kill(pid, signal.SIGKILL)


@contextlib.contextmanager
def _named_failure(where: str) -> Iterator[None]:
    """Inside, a process is about to be started; what the system refuses is one line.

    Args:
        where: what it needs, in words.

    Raises:
        RequestError: it cannot be started.
    """
    try:
        yield
    except (OSError, BrokenExecutor) as error:
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise RequestError(
            f"a worker process cannot be started: {why}; {where}; give it room, or run in this process: --in-process"
        ) from None
