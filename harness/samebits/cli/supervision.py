"""A pair whose code ends or blocks the process that imports it costs its own results alone.

A command plans with the declarations and implementations of the user, which it has to import. So it runs in a forked
child, before anything is imported; its parent waits, and starts it again without a pair whose code ended or blocked it.
The exit code is the one that the child recorded, whatever the user's code does while the child ends.
"""

from __future__ import annotations

import contextlib
import faulthandler
import itertools
import mmap
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import IO

from samebits.cli.common import EXIT_CODE, say
from samebits.engine.last_words import last_words
from samebits.engine.work import STACK_TIME, signal_name
from samebits.errors import COULD_NOT_TELL, CouldNotRun
from samebits.host.interrupts import ENDING as ENDING_SIGNALS

LONGEST_NAME = 1000
"""Bytes of the name of a pair that the parent can read; after them comes one for the exit code."""

LEFT_THREADS = LONGEST_NAME + 1
"""Where the names of pairs begin whose import left a thread running, each ended by a zero byte."""

PROBLEMS = LEFT_THREADS + 64_000
"""Where the digests of problems begin that a child has printed, which the next one would print again."""

DIGEST = 8
"""Bytes of each."""

JOURNALED = PROBLEMS + 4000 * DIGEST
"""Where a byte says whether a child has opened the journal of the command."""

SHARED = JOURNALED + 1
"""Bytes of the memory that both share."""

RUNNING = 255
"""In place of the exit code, while the command runs."""

ENDING = 10.0
"""Seconds that a child may take to end after its report; longer, if the user's code has left a thread running."""

STARTING = 60.0
"""Seconds that jax may take to start in a process of its own."""

_FATAL = (1, -signal.SIGABRT)
"""What XLA's fatal errors end a process with: an exit code, or a signal as a negative number."""

_FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP)
"""Signals that a process hardly sends itself."""

PAUSE = 0.2
"""Seconds between two looks at what the child imports."""

_SIGNALS = (*ENDING_SIGNALS, signal.SIGCHLD)
"""What the parent waits for."""


@dataclass(slots=True)
class _Supervision:
    """State that parent and child share; one object, because a process has one parent.

    Args:
        shared: memory of both: the name of the pair whose code is being imported, the exit code, and the names of pairs
            that left a thread running; further what was printed, and whether there is a journal.
        printed: the digests of what earlier children have printed.
        excluded: the pairs that ended an earlier child, with how.
        beside: for each pair that ended a child while it was imported, those that had left a thread running before.
    """

    shared: mmap.mmap | None = None
    printed: frozenset[bytes] = frozenset()
    excluded: dict[str, str] = field(default_factory=dict)
    beside: dict[str, list[str]] = field(default_factory=dict)


_SUPERVISION = _Supervision()


@contextlib.contextmanager
def importing(name: str) -> Iterator[None]:
    """Inside, the code of a pair is imported: if the process ends, its parent can name the pair.

    Raises:
        CouldNotRun: it ended an earlier process.
    """
    if name in _SUPERVISION.excluded:
        raise CouldNotRun(f"pair '{name}': {_SUPERVISION.excluded[name]}")
    shared = _SUPERVISION.shared
    if shared is None:
        yield
        return
    _write(shared, name)
    threads = set(threading.enumerate())
    try:
        yield
    finally:
        if not threads.issuperset(threading.enumerate()):
            _add_left_thread(shared, name)
        _write(shared, "")


def say_problem(text: str) -> None:
    """One line on stderr; not where an earlier child of the same command has printed it."""
    digest, shared = blake2b(text.encode(), digest_size=DIGEST).digest(), _SUPERVISION.shared
    if digest in _SUPERVISION.printed:
        return
    say(text)
    if shared is not None:
        end = PROBLEMS + DIGEST * len(_printed(shared))
        if end + DIGEST <= JOURNALED:  # of more problems than there is room for, each child prints the rest
            shared[end : end + DIGEST] = digest


def journal_opened() -> None:
    """Record that the results of the command go into its journal from now on."""
    if _SUPERVISION.shared is not None:
        _SUPERVISION.shared[JOURNALED] = 1


def supervise(seconds: float, *, go_on: str, at_once: bool = False) -> None:
    """Go on in a child process, whose parent this one becomes; nothing where jax has been imported or threads run.

    Args:
        seconds: that the import of one pair's code may take.
        go_on: how the command goes on from its journal, such as `continue with --resume`; empty where it has none.
        at_once: whether it has one without `journal_opened`.

    Raises:
        RequestError: the child ended because jax does not start on this machine.
    """
    if sys.platform != "linux" or "jax" in sys.modules or threading.active_count() > 1:
        return
    shared = _SUPERVISION.shared = mmap.mmap(-1, SHARED)
    sys.stdout.flush()
    sys.stderr.flush()
    alive, ours = os.pipe()
    usual = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    while True:
        shared[:PROBLEMS] = bytes(PROBLEMS)
        _SUPERVISION.printed = frozenset(_printed(shared))
        shared[LONGEST_NAME] = RUNNING
        # In memory, since the temporary folder may not be there; the child writes to it until it ends.
        stacks = open(os.memfd_create("stacks"), "w+b")  # noqa: SIM115
        child = os.fork()
        if child == 0:
            os.close(ours)
            signal.pthread_sigmask(signal.SIG_SETMASK, usual)
            _set_up_child(alive, stacks, shared)
            return
        status, late = _wait(child, shared, seconds)
        name = _read(shared)
        if shared[LONGEST_NAME] != RUNNING:
            os._exit(shared[LONGEST_NAME])
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGINT and not name:
            os._exit(COULD_NOT_TELL)  # it has said so
        how = _how(status, stacks, f"it took more than {seconds:g} s" if late else None)
        stacks.close()
        if not _exclude(name, _left_threads(shared), how, status):
            signal.pthread_sigmask(signal.SIG_SETMASK, usual)
            _find_why_not_started(status)
            journal = (
                f"its results are in the journal: {go_on}, or " if go_on and (at_once or shared[JOURNALED]) else ""
            )
            advice = "remove the code that ended it"
            if _is_from_outside(status):
                advice = "run it again: another process ended it, or the system did for want of memory"
            say(f"the process ended without a report ({how}), and not while it imported a pair; {journal}{advice}")
            os._exit(COULD_NOT_TELL)


def _exclude(name: str, left: list[str], how: str, status: int) -> bool:
    """Leave out what may have ended a child, so that the others run; False where no pair can be named.

    Args:
        name: of the pair that was being imported; empty for none.
        left: the pairs whose import had left a thread running.
        how: the child ended.
        status: with which it ended.
    """
    excluded, beside = _SUPERVISION.excluded, _SUPERVISION.beside
    if name and name not in excluded:
        excluded[name] = f"its code ended the process that imported it ({how})"
        beside[name] = left
        return True
    suspects = [] if name or _is_from_outside(status) else [pair for pair in left if pair not in excluded]
    for pair in suspects:
        excluded[pair] = f"its import left a thread running, and the process ended later ({how})"
        # A pair that was being imported when such a thread ended an earlier child gets another try.
        for other in [other for other, before in beside.items() if pair in before]:
            del excluded[other], beside[other]
    return bool(suspects)


def _is_from_outside(status: int) -> bool:
    """Whether another process, or the system, is likely to have ended a child."""
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) in _FROM_OUTSIDE


def _find_why_not_started(status: int) -> None:
    """Look whether jax ends another process too, in which none of the user's code runs.

    XLA ends a process that it cannot start in, as where `XLA_FLAGS` has an unknown flag; it raises nothing.

    Raises:
        RequestError: it does.
    """
    if os.waitstatus_to_exitcode(status) in _FATAL:
        from samebits.host.backend_start import capture_apart

        capture_apart(STARTING)


def _set_up_child(alive: int, stacks: IO[bytes], shared: mmap.mmap) -> None:
    EXIT_CODE.record = lambda code: _record(shared, code)
    faulthandler.enable(stacks)
    faulthandler.register(signal.SIGUSR1, stacks, all_threads=True)
    threading.Thread(target=_end_with_parent, args=(alive,), daemon=True).start()


def _record(shared: mmap.mmap, code: int) -> None:
    """Record the exit code; from here on the parent waits for no thread of the user's."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # the reader of a pipe has ended, or the user's code closed it
            stream.flush()
    shared[LONGEST_NAME] = code


def _end_with_parent(alive: int) -> None:
    """Nothing is written into the pipe: reading from it returns when the parent has ended, and only then."""
    os.read(alive, 1)
    os._exit(COULD_NOT_TELL)


def _wait(child: int, shared: mmap.mmap, seconds: float) -> tuple[int, bool]:
    """The status with which a child ended, and whether it was for importing the code of a pair for too long."""
    name, since, late, reported = "", time.monotonic(), False, None
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status, late
        now = _read(shared)
        if now != name:
            name, since = now, time.monotonic()
        elif name and time.monotonic() - since > seconds:
            late = True
            os.kill(child, signal.SIGUSR1)
            time.sleep(STACK_TIME)
            os.kill(child, signal.SIGKILL)
        if shared[LONGEST_NAME] != RUNNING:
            reported = reported or time.monotonic()
            if time.monotonic() - reported > ENDING:
                say("note: user code left a thread running; the process was killed after its report")
                os.kill(child, signal.SIGKILL)
                reported = float("inf")
        arrived = signal.sigtimedwait(_SIGNALS, PAUSE)
        if arrived is not None and arrived.si_signo != signal.SIGCHLD and not _child_has_it(arrived):
            os.kill(child, arrived.si_signo)


def _child_has_it(arrived: signal.struct_siginfo) -> bool:
    """Whether a terminal has sent a signal to both: Ctrl-C comes from the kernel, whose codes are positive.

    When a terminal is closed, only the first process of its session receives SIGHUP from it.
    """
    return arrived.si_signo != signal.SIGHUP and arrived.si_code > 0


def _how(status: int, stacks: IO[bytes], late: str | None) -> str:
    """How a child ended, and where in the user's code; `late` where this process ended it."""
    stacks.seek(0)
    if os.WIFEXITED(status):
        return f"exit code {os.WEXITSTATUS(status)}"
    text = late or signal_name(os.WTERMSIG(status))
    words = last_words(stacks.read())
    return f"{text}; {words}" if words else text


def _write(shared: mmap.mmap, name: str) -> None:
    shared[:LONGEST_NAME] = name.encode()[: LONGEST_NAME - 1].ljust(LONGEST_NAME, b"\0")


def _read(shared: mmap.mmap) -> str:
    return shared[:LONGEST_NAME].rstrip(b"\0").decode("utf-8", "replace")


def _add_left_thread(shared: mmap.mmap, name: str) -> None:
    """Record a pair whose import left a thread running; not where there is no room for more."""
    names = dict.fromkeys([*_left_threads(shared), name])
    text = b"".join(name.encode()[: LONGEST_NAME - 1] + b"\0" for name in names)
    if len(text) <= PROBLEMS - LEFT_THREADS:
        shared[LEFT_THREADS : LEFT_THREADS + len(text)] = text


def _left_threads(shared: mmap.mmap) -> list[str]:
    return [name.decode("utf-8", "replace") for name in shared[LEFT_THREADS:PROBLEMS].split(b"\0") if name]


def _printed(shared: mmap.mmap) -> list[bytes]:
    digests = (shared[place : place + DIGEST] for place in range(PROBLEMS, JOURNALED, DIGEST))
    return list(itertools.takewhile(any, digests))
