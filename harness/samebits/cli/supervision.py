"""A pair whose code ends or blocks the process that imports it costs its own results alone.

A command plans with the declarations and implementations of the user, which it has to import. So it runs in a forked
child, before anything is imported; its parent waits, and starts it again without a pair whose code ended or blocked it.
The exit code is the one that the child recorded, whatever the user's code does while the child ends.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from hashlib import blake2b
from typing import IO

from samebits.cli.common import EXIT_CODE, say
from samebits.engine.work import STACK_TIME, last_words, signal_name
from samebits.errors import COULD_NOT_TELL, CouldNotRun
from samebits.host.interrupts import ENDING as ENDING_SIGNALS

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


class _Supervision:
    """What a child tells its parent, and what the parent knows of earlier children; one object for each process.

    A child tells it as lines of JSON in a file in memory: they stay there however the child ends.

    Attributes:
        importing: the pair whose code is being imported; empty for none.
        left: pairs whose import left a thread running.
        code: the exit code; None while the command runs.
        journaled: whether the command has opened its journal.
        printed: digests of the problems that were printed, by earlier children too, which the next would print again.
        excluded: the pairs that ended an earlier child, with how.
        beside: for each pair that ended a child while it was imported, those that had left a thread running before.
    """

    def __init__(self) -> None:
        self._file: int | None = None
        self._read = 0
        self.journaled = False
        self.printed: set[str] = set()
        self.excluded: dict[str, str] = {}
        self.beside: dict[str, list[str]] = {}
        self.forget()

    def forget(self) -> None:
        """Forget what an earlier child has told of itself."""
        self.importing = ""
        self.left: dict[str, None] = {}
        self.code: int | None = None

    def begin(self) -> None:
        """Listen to a child."""
        self._file = os.memfd_create("told") if self._file is None else self._file
        self.forget()

    def tell(self, what: str, value: object) -> None:
        """Tell the parent something, in a child; nothing where no other process supervises this one."""
        if self._file is not None:
            with contextlib.suppress(OSError):  # the user's code has closed the file: then nobody is told
                os.write(self._file, json.dumps([what, value]).encode() + b"\n")

    def hear(self) -> None:
        """Read what a child has told since the last time; in the parent."""
        assert self._file is not None
        text = os.pread(self._file, os.fstat(self._file).st_size - self._read, self._read)
        text = text[: text.rfind(b"\n") + 1]
        self._read += len(text)
        for line in text.splitlines():
            what, value = json.loads(line)
            if what == "left":
                self.left[value] = None
            elif what == "printed":
                self.printed.add(value)
            else:
                setattr(self, what, value)


_SUPERVISION = _Supervision()


@contextlib.contextmanager
def importing(name: str) -> Iterator[None]:
    """Import the code of a pair inside: if the process ends, its parent can name the pair.

    Raises:
        CouldNotRun: it ended an earlier process.
    """
    if name in _SUPERVISION.excluded:
        raise CouldNotRun(f"pair '{name}': {_SUPERVISION.excluded[name]}")
    _SUPERVISION.tell("importing", name)
    threads = set(threading.enumerate())
    try:
        yield
    finally:
        if not threads.issuperset(threading.enumerate()):
            _SUPERVISION.tell("left", name)
        _SUPERVISION.tell("importing", "")


def say_problem(text: str) -> None:
    """Print one line on stderr; not where an earlier child of the same command has printed it."""
    digest = blake2b(text.encode(), digest_size=8).hexdigest()
    if digest not in _SUPERVISION.printed:
        say(text)
        _SUPERVISION.tell("printed", digest)


def journal_opened() -> None:
    """Record that the results of the command go into its journal from now on."""
    _SUPERVISION.tell("journaled", True)


def supervise(seconds: float, *, go_on: str, at_once: bool = False) -> None:
    """Go on in a child process, whose parent this one becomes; nothing where jax has been imported or threads run.

    Args:
        seconds: that the import of one pair's code may take.
        go_on: how the command goes on from its journal, such as `continue with --resume`; empty where it has none.
        at_once: whether it has one without `journal_opened`.
    """
    if sys.platform != "linux" or "jax" in sys.modules or threading.active_count() > 1:
        return
    state = _SUPERVISION
    sys.stdout.flush()
    sys.stderr.flush()
    alive, ours = os.pipe()
    usual = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    while True:
        state.begin()
        # In memory, since the temporary folder may not be there; the child writes to it until it ends.
        stacks = open(os.memfd_create("stacks"), "w+b")  # noqa: SIM115
        child = os.fork()
        if child == 0:
            os.close(ours)
            signal.pthread_sigmask(signal.SIG_SETMASK, usual)
            _set_up_child(alive, stacks)
            return
        status, late = _wait(child, state, seconds)
        name = state.importing
        if state.code is not None:
            os._exit(state.code)
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGINT and not name:
            os._exit(COULD_NOT_TELL)  # it has said so
        how = _how(status, stacks, f"it took more than {seconds:g} s" if late else None)
        stacks.close()
        if not _exclude(name, [*state.left], how, status):
            signal.pthread_sigmask(signal.SIG_SETMASK, usual)
            _find_why_not_started(status)
            journaled = go_on and (at_once or state.journaled)
            journal = f"its results are in the journal: {go_on}, or " if journaled else ""
            advice = "remove the code that ended it"
            if _is_from_outside(status):
                advice = "run it again: another process ended it, or the system did for want of memory"
            say(f"the process ended without a report ({how}), and not while it imported a pair; {journal}{advice}")
            os._exit(COULD_NOT_TELL)


def _exclude(name: str, left: list[str], how: str, status: int) -> bool:
    """Leave out what may have ended a child, so that the others run; False where no pair can be named."""
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
    """Return whether another process, or the system, is likely to have ended a child."""
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) in _FROM_OUTSIDE


def _find_why_not_started(status: int) -> None:
    """Look whether jax ends another process too, in which none of the user's code runs; then raise what it says.

    XLA ends a process that it cannot start in, as where `XLA_FLAGS` has an unknown flag; it raises nothing.
    """
    if os.waitstatus_to_exitcode(status) in _FATAL:
        from samebits.host.backend_start import capture_apart

        capture_apart(STARTING)


def _set_up_child(alive: int, stacks: IO[bytes]) -> None:
    EXIT_CODE.record = _record
    faulthandler.enable(stacks)
    faulthandler.register(signal.SIGUSR1, stacks, all_threads=True)
    threading.Thread(target=_end_with_parent, args=(alive,), daemon=True).start()


def _record(code: int) -> None:
    """Record the exit code; from here on the parent waits for no thread of the user's."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # the reader of a pipe has ended, or the user's code closed it
            stream.flush()
    _SUPERVISION.tell("code", code)


def _end_with_parent(alive: int) -> None:
    """End with the parent: nothing is written into the pipe, and reading returns when the parent has ended."""
    os.read(alive, 1)
    os._exit(COULD_NOT_TELL)


def _wait(child: int, state: _Supervision, seconds: float) -> tuple[int, bool]:
    """Return the status with which a child ended, and whether it was for importing the code of a pair for too long."""
    name, since, late, reported = "", time.monotonic(), False, None
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        state.hear()
        if done:
            return status, late
        if state.importing != name:
            name, since = state.importing, time.monotonic()
        elif name and time.monotonic() - since > seconds:
            late = True
            os.kill(child, signal.SIGUSR1)
            time.sleep(STACK_TIME)
            os.kill(child, signal.SIGKILL)
        if state.code is not None:
            reported = reported or time.monotonic()
            if time.monotonic() - reported > ENDING:
                say("note: user code left a thread running; the process was killed after its report")
                os.kill(child, signal.SIGKILL)
                reported = float("inf")
        arrived = signal.sigtimedwait(_SIGNALS, PAUSE)
        if arrived is not None and arrived.si_signo != signal.SIGCHLD and not _child_has_it(arrived):
            os.kill(child, arrived.si_signo)


def _child_has_it(arrived: signal.struct_siginfo) -> bool:
    """Return whether a terminal has sent a signal to both: Ctrl-C comes from the kernel, whose codes are positive.

    When a terminal is closed, only the first process of its session receives SIGHUP from it.
    """
    return arrived.si_signo != signal.SIGHUP and arrived.si_code > 0


def _how(status: int, stacks: IO[bytes], late: str | None) -> str:
    """Say how a child ended, and where in the user's code; `late` where this process ended it."""
    stacks.seek(0)
    if os.WIFEXITED(status):
        return f"exit code {os.WEXITSTATUS(status)}"
    text = late or signal_name(os.WTERMSIG(status))
    words = last_words(stacks.read())
    return f"{text}; {words}" if words else text
