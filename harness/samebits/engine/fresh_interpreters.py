"""Starts the worker processes for pebble, and says how they ended."""

from __future__ import annotations

from collections import deque
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import Any


class FreshInterpreters(SpawnContext):
    """Starts fresh interpreters, and keeps the last ones: pebble may lose how its process ended.

    A forked child would inherit jax's threads without their locks.
    """

    def __init__(self) -> None:
        super().__init__()
        self.started: deque[SpawnProcess] = deque(maxlen=2)

    def Process(self, *args: Any, **keywords: Any) -> SpawnProcess:  # type: ignore[override]
        """The process that is to be started next; what pebble calls."""
        self.started.append(SpawnProcess(*args, **keywords))
        return self.started[-1]

    def pid(self, said: int) -> int | None:
        """The process that says that it is this one: user code may have changed what it takes itself for.

        Args:
            said: what it says; where none of the last ones has this number, it is the last one.
        """
        pids = [process.pid for process in self.started]
        return said if said in pids else pids[-1] if pids else None

    def exit_code(self, pid: int | None) -> int | None:
        """How one of them ended; None where that is not known."""
        for process in self.started:
            if process.pid is not None and process.pid == pid:
                process.join(timeout=2)  # its end may be on its way
                return process.exitcode
        return None
