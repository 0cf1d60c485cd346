"""Keeps what a C++ library writes to file descriptor 2 out of the terminal, and hands it out when something fails."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from typing import BinaryIO, TextIO

_LOCK = threading.Lock()
_ACTIVE: list[tuple[int, BinaryIO, TextIO, io.TextIOWrapper | None]] = []
_DEPTH = 0

LINES = 20
"""How many of the last lines are handed out."""


@contextlib.contextmanager
def quiet() -> Iterator[Callable[[], str]]:
    """Inside, file descriptor 2 leads to a file; what Python itself prints to `sys.stderr` is still seen.

    Several threads can be inside at once: the first opens the file, the last closes it.

    Yields:
        A function that gives the last `LINES` lines written so far.
    """
    _enter()
    try:
        yield _written
    finally:
        _leave()


def _enter() -> None:
    global _DEPTH
    with _LOCK:
        _DEPTH += 1
        if _DEPTH > 1:
            return
        sys.stderr.flush()
        kept, before = os.dup(2), sys.stderr
        file = tempfile.TemporaryFile()  # noqa: SIM115
        own = None
        try:
            direct = before.fileno() == 2
        except (OSError, ValueError, AttributeError):  # replaced by something without a file, as pytest does
            direct = False
        if direct:
            own = open(os.dup(kept), "w", encoding=before.encoding, errors=before.errors, buffering=1)  # noqa: SIM115
            sys.stderr = own
        os.dup2(file.fileno(), 2)
        _ACTIVE.append((kept, file, before, own))


def _leave() -> None:
    global _DEPTH
    with _LOCK:
        _DEPTH -= 1
        if _DEPTH:
            return
        kept, file, before, own = _ACTIVE.pop()
        os.dup2(kept, 2)
        os.close(kept)
        file.close()
        if own is not None:
            sys.stderr = before
            own.close()


def _written() -> str:
    with _LOCK:
        if not _ACTIVE:
            return ""
        file = _ACTIVE[-1][1]
        size = os.fstat(file.fileno()).st_size
        # Read at a place of our own: the descriptor's is where the library writes next.
        text = os.pread(file.fileno(), 1 << 16, max(0, size - (1 << 16))).decode(errors="replace")
    return "\n".join(text.splitlines()[-LINES:])
