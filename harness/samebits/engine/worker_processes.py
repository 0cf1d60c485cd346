"""Runs chunks in worker processes of this machine; a process that crashes is replaced.

Not by `concurrent.futures` and not by loky: there a crash of one process loses the tasks of all others, and a task that
runs cannot be ended. What a process reports goes through a file of its own, line by line: a pipe or a queue may be left
locked or torn when it is killed. Its chunks are files too, so that no pipe is ever full.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import os
import pickle
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

import msgspec

from samebits.engine.journal import LineReader, encode_line
from samebits.engine.work import (
    STACK_TIME,
    Chunk,
    ChunkDone,
    Ended,
    Event,
    Executor,
    Finished,
    ProcessExit,
    Trouble,
    Unusable,
    Work,
    last_words,
    signal_name,
    without_stacks,
)
from samebits.errors import COULD_NOT_TELL, RequestError
from samebits.host import environment
from samebits.host.device_health import device_failure
from samebits.host.interrupts import withheld_from_children
from samebits.host.isolation import forked_ended
from samebits.host.memory import end_first, kill_children, kill_rest_of_group, resident_bytes
from samebits.host.subprocesses import current_folder_ignored, forget_ignored_folder

_FRESH = get_context("spawn")
"""Starts fresh interpreters: a forked child would inherit jax's threads without their locks."""

PAUSE = 0.02
"""Seconds between two looks at the files of the processes."""

TAIL = 8000
"""How many bytes of stderr are looked through for the reason of an end."""

PIECE = 1 << 20
"""How many bytes of what a process writes are in memory at a time."""

_EVENTS = msgspec.json.Decoder(Event | Unusable | ChunkDone)


@dataclass(slots=True)
class _Slot:
    """A process, and the chunk that it runs.

    Args:
        errors: what its processes write to stdout and stderr.
        inbox: where it gets the names of its files.
        used: whether the process has run a chunk before.
        killed: why we have ended the process, or it has itself.
        forwarded: how many bytes of `errors` were read.
        begun: how many there were before the chunk.
        rest: what was read of a line that has not ended yet.
        dumped: whether the process has begun to write its stacks.
    """

    errors: Path
    process: SpawnProcess | None = None
    inbox: Connection | None = None
    chunk: Chunk | None = None
    reader: LineReader | None = None
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
        forward: called with what the user's code writes to stdout and stderr there.
    """

    head_start = 3.0  # importing jax takes one to two seconds of a processor

    def __init__(self, work: Work[Any], slots: int, forward: Callable[[bytes], None]) -> None:
        self.slots = slots
        with _named_failure("TMPDIR names the folder of its files"):
            self._folder = tempfile.TemporaryDirectory(prefix="samebits-", ignore_cleanup_errors=True)
        self._forward = forward
        self._work = work
        self._slots = [_Slot(Path(self._folder.name) / f"stderr-{number}") for number in range(slots)]

    def submit(self, chunk: Chunk) -> None:
        """Have a chunk run in a free process."""
        slot = min((slot for slot in self._slots if slot.chunk is None), key=lambda slot: chunk.fresh and slot.used)
        if slot.process is None or not slot.process.is_alive() or (chunk.fresh and slot.used):
            self._start(slot)
        file = Path(self._folder.name) / f"chunk-{chunk.number}"
        slot.chunk, slot.reader, slot.killed = chunk, LineReader(file.with_suffix(".events")), None
        slot.begun, slot.dumped = slot.forwarded, False
        with _named_failure("TMPDIR names the folder of its files"):
            file.write_bytes(pickle.dumps(chunk))
        assert slot.inbox is not None
        with contextlib.suppress(OSError):  # it has ended meanwhile, which is seen when it is looked at
            slot.inbox.send((str(file), str(slot.reader.path)))

    def _start(self, slot: _Slot) -> None:
        self._end(slot)
        receiver, slot.inbox = _FRESH.Pipe(duplex=False)
        slot.process, slot.used = _FRESH.Process(target=serve, args=(self._work, str(slot.errors), receiver)), False
        with withheld_from_children(), current_folder_ignored(), _named_failure("`ulimit -a` shows how many may run"):
            slot.process.start()
        receiver.close()

    def _end(self, slot: _Slot) -> None:
        """End the process of a slot, and the programs that the user's code left running in it."""
        process, slot.process = slot.process, None
        if slot.inbox is not None:
            slot.inbox.close()
        if process is not None and process.pid is not None:
            _kill(process.pid)
            process.join()
            kill_rest_of_group(process.pid)

    def events(self, seconds: float) -> Iterator[tuple[int, Event | Ended]]:
        """Yield what the processes have said since the last call."""
        until = time.monotonic() + seconds
        while True:
            news = [event for slot in self._slots if slot.chunk is not None for event in self._look(slot)]
            yield from news
            if news or time.monotonic() > until or all(slot.chunk is None for slot in self._slots):
                return
            time.sleep(PAUSE)

    def _running(self, number: int) -> _Slot | None:
        return next((slot for slot in self._slots if slot.chunk is not None and slot.chunk.number == number), None)

    def kill(self, number: int, loss: ProcessExit) -> None:
        """End the process of a chunk."""
        slot = self._running(number)
        if slot is not None and slot.killed is None:
            slot.killed = loss
            if slot.process is not None and slot.process.pid is not None:
                _kill(slot.process.pid, stacks=True)

    def memory(self, number: int) -> int | None:
        """Return how many bytes the process of a chunk holds."""
        slot = self._running(number)
        process = None if slot is None else slot.process
        return None if process is None or process.pid is None else resident_bytes(process.pid)

    def close(self) -> None:
        """End all processes at once; what they had not said is lost."""
        for slot in self._slots:
            self._end(slot)
            self._pass_on(slot, ended=True)
        self._folder.cleanup()
        self._slots.clear()

    def _look(self, slot: _Slot) -> Iterator[tuple[int, Event | Ended]]:
        """Yield the new events of one slot; empties it where its chunk has ended."""
        chunk, process, reader = slot.chunk, slot.process, slot.reader
        assert chunk is not None and process is not None and reader is not None
        lost, done = not process.is_alive(), False  # before reading: what it wrote last must not be missed
        for line in reader.new():
            slot.dumped = False  # it goes on: the stack was the user's own
            event = _EVENTS.decode(line)
            if isinstance(event, Unusable):
                slot.killed = slot.killed or ProcessExit(kind=event.kind, text=event.text)
            elif isinstance(event, ChunkDone):
                done = True
            else:
                yield chunk.number, event
        words = self._pass_on(slot, ended=lost or done)
        if not (lost or done):
            return
        loss = None if done else _loss(slot.killed, process.exitcode or 0, words)
        ended = Ended(loss, slot.used)
        slot.chunk, slot.used = None, True
        if loss is not None:
            self._end(slot)
        reader.path.unlink(missing_ok=True)
        yield chunk.number, ended

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


def _loss(killed: ProcessExit | None, code: int, words: str) -> ProcessExit:
    """Return why a process ended before its chunk did."""
    if killed is not None:
        return replace(killed, last_words=words)
    if code < 0:
        return ProcessExit(kind="signal", text=signal_name(-code), last_words=words)
    return ProcessExit(kind="exit", text=f"exit code {code}", last_words=words)


def _kill(pid: int, *, stacks: bool = False) -> None:
    """End a process, and what the user's code has started in it."""
    with contextlib.suppress(OSError):  # it has ended by itself meanwhile
        if stacks:
            os.kill(pid, signal.SIGUSR1)
            time.sleep(STACK_TIME)
        kill_children(pid)
        os.kill(pid, signal.SIGKILL)


@contextlib.contextmanager
def _named_failure(where: str) -> Iterator[None]:
    """Say in one line what the system refuses inside, where a process is about to be started."""
    try:
        yield
    except OSError as error:
        why = error.strerror or str(error) or type(error).__name__
        raise RequestError(
            f"a worker process cannot be started: {why}; {where}; give it room, or run in this process: --in-process"
        ) from None


class _Worker:
    """What a worker process does; one object, because it is set where the process starts.

    Args:
        work: None before.
        pid: of this process, from before user code could change `os.getpid`.
        used: whether it has run a chunk before, or an item of this one.
    """

    def __init__(self) -> None:
        self.work: Work[Any] | None = None
        self.pid = 0
        self.used = False


_WORKER = _Worker()


def prepare(work: Work[Any], errors: str) -> None:
    """Set a worker process up: output to a file, jax's environment, and an end with its parent."""
    # What the user's code sends to its process group must reach neither the driving process nor the other workers.
    os.setpgid(0, 0)
    _WORKER.pid = os.getpid()
    file = os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for descriptor in (1, 2):
        os.dup2(file, descriptor)
    os.close(file)
    forget_ignored_folder()
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    end_first()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    environment.prepare()
    # Tracing makes many short-lived objects; with Python's thresholds their collector takes 4 % of a sweep.
    gc.set_threshold(50_000, 10, 10)
    _WORKER.work = work


def _end_with_parent() -> None:
    """End with a parent that was killed: it cannot end its workers, nor what they have started."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        try:
            kill_children(_WORKER.pid)
        finally:
            os._exit(1)


def serve(work: Work[Any], errors: str, inbox: Connection) -> None:
    """Run chunks until this process ends or is ended."""
    prepare(work, errors)
    while True:
        try:
            file, events = inbox.recv()
        except (EOFError, OSError):  # the driving process has closed it, or the user's code has
            os._exit(0)
        run_chunk(pickle.loads(Path(file).read_bytes()), events)


def run_chunk(chunk: Chunk, path: str) -> None:
    """Run a chunk in a worker process; each event is in the file before the next thing is done."""
    work = _WORKER.work
    assert work is not None
    with open(path, "ab", buffering=0) as file:
        events = work.events(chunk.items, chunk.ahead)
        while True:
            try:
                with forked_ended():
                    event = next(events, None)
                report: Event | Unusable | ChunkDone = ChunkDone() if event is None else _unusable(event) or event
            except BaseException as error:  # also `SystemExit`, of the user's code
                report = Unusable("exit", f"{type(error).__name__}: {error}")
            file.write(encode_line(report))
            if isinstance(report, Unusable):
                kill_children(_WORKER.pid)
                os._exit(1)  # an orderly end would wait for the device
            if isinstance(report, ChunkDone):
                break
            _WORKER.used = _WORKER.used or isinstance(report, Finished)
    _WORKER.used = True


def _unusable(event: Event) -> Unusable | None:
    """Explain why this process must end instead of reporting this; None where it goes on.

    An error that no item caused counts only in a process that has done nothing else: an earlier item may have taken
    all its open files.
    """
    if not isinstance(event, Finished | Trouble):
        return None
    if failure := device_failure():
        return Unusable("device", failure)
    if isinstance(event, Trouble) and event.exit_code == COULD_NOT_TELL and _WORKER.used:
        return Unusable("exit", f"{event.pair}: {event.message}")
    return None
