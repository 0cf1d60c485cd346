"""A function in a process of its own, which what it runs may end, block or fill without harm to this one."""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import resource
import select
import signal
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from samebits.host.memory import GIB, total_memory
from samebits.user_errors import one_line

SHARE = 0.6
"""What a process may hold of all memory."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ForkEnd:
    """How a function in another process ended.

    Args:
        value: what it returned, or of what it yielded the last; None where it did neither.
        trouble: why not, in words.
        is_late: whether its time was over.
    """

    value: Any = None
    trouble: str = ""
    is_late: bool = False


def forked(work: Callable[[], Any], seconds: float) -> ForkEnd:
    """Call a function in a fork of this process, which must not have started jax's backend, and return what it says.

    What a generator yields before its time is over, or before it raises, is not lost. Whatever it started ends with
    it, and what it prints is lost.
    """
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # jax warns of forks, which harm where its backend runs already
        number = os.fork()
    if number == 0:
        _child(work, writing)
    os.close(writing)
    try:
        text, late = _read(reading, time.monotonic() + seconds)
    finally:
        os.close(reading)
        with contextlib.suppress(OSError):
            os.killpg(number, signal.SIGKILL)
        status = os.waitpid(number, 0)[1]
    value, trouble, ended = _last(text)
    if late:
        trouble = f"did not return within {seconds:g} seconds"
    elif not ended:  # it ended before it had written all, or something else was written
        code = os.waitstatus_to_exitcode(status)
        trouble = f"ended the process {f'by signal {-code}' if code < 0 else f'with exit code {code}'}"
    return ForkEnd(value=value, trouble=trouble, is_late=late)


def _last(text: bytes) -> tuple[Any, str, bool]:
    """Return the last value that was written, what went wrong, and whether the other side came to its end."""
    stream, value = io.BytesIO(text), None
    with contextlib.suppress(Exception):
        while True:
            latest, trouble, ended = pickle.load(stream)
            value = value if latest is None else latest
            if ended:
                return value, trouble, True
    return value, "", False


def _child(work: Callable[[], Any], writing: int) -> None:
    """Call the function, write what it returned and end at once."""
    try:
        os.setsid()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        limit = int(total_memory() * SHARE) + 4 * GIB  # of addresses, of which jax reserves more than it uses
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
        with os.fdopen(writing, "wb") as file:
            try:
                value = work()
                if isinstance(value, Iterator):
                    for value in value:  # noqa: B020  of which the last one stays
                        file.write(pickle.dumps((value, "", False)))
                        file.flush()
                text = pickle.dumps((value, "", True))
            except BaseException as error:  # `sys.exit()` is no `Exception`
                text = pickle.dumps((None, one_line(error), True))
            file.write(text)
    finally:
        os._exit(0)


def _read(reading: int, end: float) -> tuple[bytes, bool]:
    """Return all that is written until the other side is closed, and whether the time was over before."""
    parts: list[bytes] = []
    while True:
        left = end - time.monotonic()
        if left <= 0 or not select.select([reading], [], [], left)[0]:
            return b"".join(parts), True
        part = os.read(reading, 1 << 20)
        if not part:
            return b"".join(parts), False
        parts.append(part)
