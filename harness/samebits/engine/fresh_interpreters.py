"""Starts the worker processes for pebble, and says how they ended."""

from __future__ import annotations

from collections import deque
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import Any

from samebits.host.subprocesses import current_folder_ignored


class _FreshProcess(SpawnProcess):
    """A process that imports nothing from the current folder before it has the module path of this one."""

    def start(self) -> None:
        """As of any process."""
        with current_folder_ignored():
            super().start()


class FreshInterpreters(SpawnContext):
    """Starts fresh interpreters, and keeps the last ones: pebble may lose how its process ended.

    A forked child would inherit jax's threads without their locks.
    """

    def __init__(self) -> None:
        super().__init__()
        self.started: deque[SpawnProcess] = deque(maxlen=2)

    def Process(self, *args: Any, **keywords: Any) -> SpawnProcess:  # type: ignore[override]
        """The process that is to be started next; what pebble calls."""
        self.started.append(_FreshProcess(*args, **keywords))
        return self.started[-1]

    def exit_code(self, pid: int | None) -> int | None:
        """How one of them ended; None where that is not known."""
        for process in self.started:
            if process.pid is not None and process.pid == pid:
                process.join(timeout=2)  # its end may be on its way
                return process.exitcode
        return None
