"""A declaration that ends or blocks the process that imports it costs its own pair alone.

A command plans with the declarations of the user, which it has to import. So it runs in a forked child, before anything
is imported; its parent waits, and starts it again without a declaration whose import ended or blocked it.
"""

from __future__ import annotations

import contextlib
import faulthandler
import mmap
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import IO

from samebits.cli.common import COULD_NOT_TELL, say
from samebits.engine.last_words import last_words
from samebits.engine.work import STACK_TIME, signal_name

LONGEST_NAME = 1000
"""Bytes of the name of a declaration that the parent can read."""

PAUSE = 0.2
"""Seconds between two looks at what the child imports."""

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)
"""What the parent waits for."""


@dataclass(slots=True)
class _Supervision:
    """What parent and child know of each other; one object, because a process has one parent.

    Args:
        importing: memory that both share: the name of the declaration that is being imported.
        excluded: the declarations that ended an earlier child, with how.
    """

    importing: mmap.mmap | None = None
    excluded: dict[str, str] = field(default_factory=dict)


_SUPERVISION = _Supervision()


def excluded() -> Mapping[str, str]:
    """The declarations that must not be imported again, each with how it ended the process."""
    return _SUPERVISION.excluded


@contextlib.contextmanager
def importing(name: str) -> Iterator[None]:
    """Inside, a declaration is imported: if the process ends, its parent knows by which."""
    shared = _SUPERVISION.importing
    if shared is None:
        yield
        return
    _write(shared, name)
    try:
        yield
    finally:
        _write(shared, "")


def supervise(seconds: float) -> None:
    """Go on in a child process, whose parent this one becomes; nothing where jax has been imported or threads run.

    Args:
        seconds: that the import of one declaration may take.
    """
    if sys.platform != "linux" or "jax" in sys.modules or threading.active_count() > 1:
        return
    shared = _SUPERVISION.importing = mmap.mmap(-1, LONGEST_NAME)
    sys.stdout.flush()
    sys.stderr.flush()
    alive, ours = os.pipe()
    usual = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    while True:
        _write(shared, "")
        stacks = tempfile.TemporaryFile()  # noqa: SIM115 - the child writes to it until it ends
        child = os.fork()
        if child == 0:
            os.close(ours)
            signal.pthread_sigmask(signal.SIG_SETMASK, usual)
            _set_up_child(alive, stacks)
            return
        status, late = _wait(child, shared, seconds)
        name = _read(shared)
        if os.WIFEXITED(status) and not name:
            os._exit(os.WEXITSTATUS(status))
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGINT and not name:
            os._exit(COULD_NOT_TELL)  # it has said so
        how = _how(status, stacks, f"it took more than {seconds:g} s" if late else None)
        stacks.close()
        if not name or name in _SUPERVISION.excluded:
            say(f"samebits itself was ended ({how}); what was known is in its journal: go on with --resume")
            os._exit(COULD_NOT_TELL)
        _SUPERVISION.excluded[name] = how


def _set_up_child(alive: int, stacks: IO[bytes]) -> None:
    faulthandler.enable(stacks)
    faulthandler.register(signal.SIGUSR1, stacks, all_threads=True)
    threading.Thread(target=_end_with_parent, args=(alive,), daemon=True).start()


def _end_with_parent(alive: int) -> None:
    """Nobody writes into the pipe: it can be read from when the parent has ended, and only then."""
    os.read(alive, 1)
    os._exit(COULD_NOT_TELL)


def _wait(child: int, shared: mmap.mmap, seconds: float) -> tuple[int, bool]:
    """The status with which a child ended, and whether it was for importing a declaration for too long."""
    name, since, late = "", time.monotonic(), False
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
        arrived = signal.sigtimedwait(_SIGNALS, PAUSE)
        # A terminal sends Ctrl-C to both; then it comes from the kernel, whose codes are positive.
        if arrived is not None and arrived.si_signo != signal.SIGCHLD and arrived.si_code <= 0:
            os.kill(child, arrived.si_signo)


def _how(status: int, stacks: IO[bytes], late: str | None) -> str:
    """How a child ended, and where in the user's code; `late` where this process ended it."""
    stacks.seek(0)
    if os.WIFEXITED(status):
        return f"exit code {os.WEXITSTATUS(status)}"
    text = late or signal_name(os.WTERMSIG(status))
    words = last_words(stacks.read())
    return f"{text}; {words}" if words else text


def _write(shared: mmap.mmap, name: str) -> None:
    shared[:] = name.encode()[: LONGEST_NAME - 1].ljust(LONGEST_NAME, b"\0")


def _read(shared: mmap.mmap) -> str:
    return shared[:].rstrip(b"\0").decode("utf-8", "replace")
