"""Keeps standard output for our reports and stderr for our messages, wherever the user's code leads them meanwhile.

What any other code prints to standard output goes to stderr.

The user's code prints when it is imported, traced and called, from threads and child processes too; a report that is
read by a program, as in `samebits list --json /dev/stdout | jq`, must hold none of that.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

_DEVICES = ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")
"""The names under which a user asks for a report on standard output."""


class _Stdout(io.TextIOWrapper):
    """Standard output that prints nothing more after its first failure, as on a full disk; the run goes on.

    A reader that has closed its pipe (`samebits check | head`) is not a failure: rich handles it.
    """

    failure: str | None = None

    def write(self, text: str) -> int:
        """Write as any stream does, and stop after the first error."""
        with self._noting_failure():
            super().write(text)
        return len(text)

    def flush(self) -> None:
        """Flush as any stream does, and stop after the first error."""
        with self._noting_failure():
            super().flush()

    @contextlib.contextmanager
    def _noting_failure(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            raise
        except OSError as error:
            self.failure = error.strerror or str(error)
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())


class _Output:
    """Where our reports and messages go; one object, because there is one standard output per process.

    Args:
        stream: None where nothing is kept apart, and `sys.stdout` is what it is elsewhere.
        errors: `sys.stderr` as it was, and another stream to the same file; None as above.
    """

    def __init__(self) -> None:
        self.stream: TextIO | None = None
        self.errors: tuple[TextIO, TextIO] | None = None


_OUTPUT = _Output()


def own_stdout() -> TextIO:
    """Return the standard output that the command was started with."""
    return _OUTPUT.stream or sys.stdout


def own_stderr() -> TextIO:
    """Return the stderr that the command was started with, or what has replaced it, as a progress bar does."""
    if _OUTPUT.errors is None:
        return sys.stderr
    replaced, ours = _OUTPUT.errors
    return ours if sys.stderr is replaced else sys.stderr


def stdout_failure() -> str | None:
    """Explain why standard output could not be written, after what is buffered has been; None where it could be."""
    stream = own_stdout()
    if not isinstance(stream, _Stdout):
        return None
    with contextlib.suppress(BrokenPipeError):
        stream.flush()
    return stream.failure


def is_stdout(path: Path | None) -> bool:
    """Return whether a report file is the standard output."""
    return path is not None and str(path) in _DEVICES


@contextlib.contextmanager
def kept_apart() -> Iterator[None]:
    """Send what is printed to standard output to stderr inside; `own_stdout()` is where it went before.

    `own_stderr()` is where stderr leads now, whatever closes descriptor 2 or leads it elsewhere.
    """
    with _own_errors(), _own_reports():
        yield


@contextlib.contextmanager
def _own_errors() -> Iterator[None]:
    before, stderr = _OUTPUT.errors, sys.stderr
    if not _writes_to(stderr, 2):  # replaced, as tests do
        yield
        return
    ours = open(os.dup(2), "w", 1, encoding=stderr.encoding, errors=stderr.errors)  # noqa: SIM115
    _OUTPUT.errors = stderr, ours
    try:
        yield
    finally:
        _OUTPUT.errors = before
        with contextlib.suppress(OSError):  # what could not be written is lost
            ours.close()


@contextlib.contextmanager
def _own_reports() -> Iterator[None]:
    before, stdout = _OUTPUT.stream, sys.stdout
    stdout.flush()
    if not _writes_to(stdout, 1):  # replaced, as tests do
        _OUTPUT.stream, sys.stdout = stdout, sys.stderr
        try:
            yield
        finally:
            _OUTPUT.stream, sys.stdout = before, stdout
        return
    # The descriptor too: child processes and libraries in C write to it.
    written = io.BufferedWriter(io.FileIO(os.dup(1), "w"))
    with _Stdout(written, stdout.encoding, stdout.errors, line_buffering=stdout.isatty()) as stream:
        _OUTPUT.stream = stream
        _lines(stdout, True)
        with contextlib.suppress(OSError):  # there is no stderr
            os.dup2(2, 1)
        try:
            yield
        finally:
            with contextlib.suppress(OSError, ValueError):  # the user's code closed it
                stdout.flush()
            os.dup2(stream.fileno(), 1)
            _lines(stdout, False)
            _OUTPUT.stream = before


def _writes_to(stream: TextIO, descriptor: int) -> bool:
    try:
        return stream.fileno() == descriptor
    except (OSError, ValueError, AttributeError):  # replaced by something without a file, as tests do
        return False


def _lines(stream: TextIO, buffered: bool) -> None:
    """Have a stream written line by line, so that what goes to stderr comes in the order of time."""
    if isinstance(stream, io.TextIOWrapper) and not stream.closed and not stream.isatty():
        stream.reconfigure(line_buffering=buffered)
