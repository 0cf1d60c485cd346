"""Runs a command in a process of its own, and ends it with all processes that it started."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from samebits.errors import CouldNotRun
from samebits.host.installed import PACKAGE

PATIENCE = 3.0
"""Seconds that a process has for its end before it is killed."""

_SAFE_PATH, _OURS = "PYTHONSAFEPATH", "samebits"


@contextlib.contextmanager
def current_folder_ignored() -> Iterator[None]:
    """Start Python processes inside that import nothing from the current folder, such as a `types.py` there.

    `python -c`, by which multiprocessing starts them, looks there first, even for Python's own modules.
    """
    if os.environ.get(_SAFE_PATH):
        yield
        return
    os.environ[_SAFE_PATH] = _OURS
    try:
        yield
    finally:
        os.environ.pop(_SAFE_PATH, None)


def forget_ignored_folder() -> None:
    """Take the variable back in such a process: programs that user code starts must not inherit it."""
    if os.environ.get(_SAFE_PATH) == _OURS:
        del os.environ[_SAFE_PATH]


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessResult:
    """How a process ended.

    Args:
        code: its exit code; negative, the signal that ended it.
    """

    code: int
    out: str = ""
    err: str = ""

    @property
    def last(self) -> str:
        """The last line that it printed, of errors first."""
        lines = [line.strip() for text in (self.out, self.err) for line in text.splitlines() if line.strip()]
        return " ".join(lines[-1].split())[:300] if lines else ""


def samebits_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which this samebits is the one that is imported."""
    paths = [str(PACKAGE.parent), environment.get("PYTHONPATH", "")]
    return {**environment, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def run_process(
    words: Sequence[str],
    cwd: Path,
    environment: Mapping[str, str],
    timeout: float | None,
    stop: threading.Event | None = None,
) -> ProcessResult:
    """Run a command line without a shell, and end all that it started when its time is over, or when `stop` is set."""
    # Files, not pipes: a process that the command left behind keeps a pipe open.
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            process = subprocess.Popen(
                words,
                cwd=cwd,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        except OSError as error:
            raise CouldNotRun(f"'{words[0]}' cannot be started: {error.strerror or error}") from None
        try:
            code = process.wait(timeout) if stop is None else _until(stop, process)
        except subprocess.TimeoutExpired:
            raise CouldNotRun(f"'{shlex.join(words)}' took longer than {timeout:g} seconds") from None
        finally:
            _end(process)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode("utf-8", "replace"))
        return ProcessResult(code=code, out=texts[0], err=texts[1])


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process and all that it started; one that runs is asked first, so that it removes its temporary folders."""
    try:
        if process.poll() is None:
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                os.killpg(process.pid, signal.SIGTERM)
                process.wait(PATIENCE)
    finally:  # also where Ctrl-C comes again meanwhile
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _until(stop: threading.Event, process: subprocess.Popen[bytes]) -> int:
    """Wait for a process, looking up now and then."""
    while not stop.is_set():
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(0.1)
    raise CouldNotRun("stopped")
