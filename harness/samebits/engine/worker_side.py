"""What a worker process does: it is set up, runs chunks, and writes each event into a file before the next thing.

It ends itself where its results would no longer be valid.
"""

from __future__ import annotations

import faulthandler
import gc
import os
import pickle
import signal
import threading
from multiprocessing import parent_process
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from samebits.engine.journal import encode_line
from samebits.engine.work import Chunk, ChunkDone, Event, Finished, Trouble, Unusable, Work
from samebits.errors import COULD_NOT_TELL
from samebits.host import environment
from samebits.host.device_health import device_failure
from samebits.host.isolation import forked_ended
from samebits.host.memory import end_first, kill_children
from samebits.host.subprocesses import forget_ignored_folder


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
    """Run chunks until this process ends or is ended.

    Args:
        work: what is done.
        errors: the file for what is written to stdout and stderr.
        inbox: gives the file of a chunk, and of its events.
    """
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
