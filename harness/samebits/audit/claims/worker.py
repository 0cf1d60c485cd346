"""A long-lived process that runs commands of `samebits` one after another, so that jax is imported only once."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

from samebits.errors import CouldNotRun
from samebits.host.subprocesses import ProcessResult, samebits_environment

COMMAND = (sys.executable, "-m", "samebits", "worker")
"""Reads one line of JSON per command (`words`, and the files `out` and `err`), and answers with one line (`code`)."""


class CommandWorker:
    """A worker process; it is started for the first command, and again after a command that ended it.

    Args:
        command: the command line of the process; tests replace it.
    """

    def __init__(self, command: Sequence[str] = COMMAND) -> None:
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, words: Sequence[str], stop: threading.Event) -> ProcessResult:
        """Run one command.

        Args:
            words: the words after `samebits`.
            stop: when set, the process is killed, and the command with it.

        Returns:
            The exit code and output of the command; if the command ended the process, the exit code of the process.

        Raises:
            CouldNotRun: the process cannot be started, or was stopped.
        """
        process = self._started()
        with tempfile.TemporaryDirectory(prefix="samebits-worker-") as folder:
            files = {name: str(Path(folder, name)) for name in ("out", "err")}
            for file in files.values():
                Path(file).touch()
            code = self._answer(process, json.dumps({"words": list(words), **files}), stop)
            out, err = (Path(file).read_text(encoding="utf-8", errors="replace") for file in files.values())
        return ProcessResult(code=code, out=out, err=err)

    def close(self) -> None:
        """Kill the process and its children."""
        if self._process is not None:
            with contextlib.suppress(OSError):
                os.killpg(self._process.pid, signal.SIGKILL)
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):
                        pipe.close()
            self._process.wait()
            self._process = None

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            try:
                self._process = subprocess.Popen(
                    self._command,
                    env=samebits_environment(os.environ),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
            except OSError as error:
                raise CouldNotRun(f"'{self._command[0]}' cannot be started: {error.strerror or error}") from None
        return self._process

    def _answer(self, process: subprocess.Popen[bytes], request: str, stop: threading.Event) -> int:
        assert process.stdin is not None and process.stdout is not None
        line = b""
        # If the process has already ended, the pipe is closed and reading from it returns nothing.
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(request.encode() + b"\n")
            process.stdin.flush()
            with selectors.DefaultSelector() as ready:
                ready.register(process.stdout, selectors.EVENT_READ)
                while not ready.select(0.1):
                    if stop.is_set():
                        self.close()
                        raise CouldNotRun("stopped")
            line = process.stdout.readline()
        if not line:
            code = process.wait()
            self.close()
            return code
        return int(json.loads(line)["code"])
