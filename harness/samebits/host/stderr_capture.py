"""Keeps what a C++ library writes to file descriptor 2 out of the terminal, and hands it out when something fails.

Not wurlitzer (3.1.1 was tried): inside its `pipes` the messages of Python's own `sys.stderr` are captured too, and
two threads cannot be inside at once.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, TextIO

LINES = 20
"""How many of the last lines are handed out."""

_TAIL = 1 << 16
"""Bytes at the end of what was written in which these lines are looked for."""


@contextlib.contextmanager
def quiet() -> Iterator[Callable[[], str]]:
    """Lead file descriptor 2 to a file inside; what Python itself prints to `sys.stderr` is still seen.

    Several threads can be inside at once: the first opens the file, the last closes it.

    Yields:
        A function that gives the last `LINES` lines written so far.
    """
    _CAPTURE.enter()
    try:
        yield _CAPTURE.written
    finally:
        _CAPTURE.leave()


def standard_error() -> TextIO:
    """Return `sys.stderr` as it is outside of `quiet`, whichever thread is inside meanwhile."""
    return _CAPTURE.outside(sys.stderr)


@dataclass(frozen=True, slots=True)
class _Redirected:
    """Where descriptor 2 leads, and what is needed to put it back.

    Args:
        descriptor: a duplicate of descriptor 2 as it was.
        file: where it leads meanwhile.
        replacement: what `sys.stderr` is meanwhile, where it wrote to descriptor 2.
    """

    descriptor: int
    file: BinaryIO
    stderr: TextIO
    replacement: io.TextIOWrapper | None

    @classmethod
    def begin(cls) -> _Redirected:
        sys.stderr.flush()
        descriptor, stderr, replacement = os.dup(2), sys.stderr, None
        file = tempfile.TemporaryFile()  # noqa: SIM115
        try:
            direct = stderr.fileno() == 2
        except (OSError, ValueError, AttributeError):  # replaced by something without a file, as pytest does
            direct = False
        if direct:
            sys.stderr = replacement = _same_place(descriptor, stderr)
        os.dup2(file.fileno(), 2)
        return cls(descriptor, file, stderr, replacement)

    def end(self) -> None:
        """Restore what we replaced, unless it has been replaced again, as pytest does between tests."""
        if not _is_open(2) or os.path.sameopenfile(2, self.file.fileno()):
            os.dup2(self.descriptor, 2)
        os.close(self.descriptor)
        self.file.close()
        if self.replacement is not None and sys.stderr is self.replacement:
            sys.stderr = self.stderr

    def tail(self) -> str:
        size = os.fstat(self.file.fileno()).st_size
        # `pread`, because the position of the descriptor is where the library writes next.
        return os.pread(self.file.fileno(), _TAIL, max(0, size - _TAIL)).decode(errors="replace")


def _same_place(descriptor: int, stderr: TextIO) -> io.TextIOWrapper:
    """Return a stream that writes where a descriptor leads, for as long as it is referred to.

    A file that closed its own descriptor would warn of not being closed then.
    """
    own = os.dup(descriptor)
    stream = open(own, "w", 1, encoding=stderr.encoding, errors=stderr.errors, closefd=False)  # noqa: SIM115
    weakref.finalize(stream, os.close, own).atexit = False
    return stream


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:  # which is the answer
        return False
    return True


class _Capture:
    """How many threads are inside `quiet`; one object, because file descriptor 2 is one per process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._redirected: _Redirected | None = None

    def enter(self) -> None:
        with self._lock:
            if self._redirected is None:
                self._redirected = _Redirected.begin()
            self._inside += 1

    def leave(self) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0 and self._redirected is not None:
                redirected, self._redirected = self._redirected, None
                redirected.end()

    def outside(self, stream: TextIO) -> TextIO:
        with self._lock:
            redirected = self._redirected
        return stream if redirected is None or stream is not redirected.replacement else redirected.stderr

    def written(self) -> str:
        with self._lock:
            text = "" if self._redirected is None else self._redirected.tail()
        return "\n".join(text.splitlines()[-LINES:])


_CAPTURE = _Capture()
