"""How a process reports to the `launch` that started it that its report is complete: user code may exit with 0."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

REPORTED = "SAMEBITS_REPORTED"
"""The variable with the file into which a process writes its exit code."""

RUNNING = "running"
"""What the file has before, from the moment at which user code may run: `--help` and the like need no report."""


def recorder() -> Callable[[int], None]:
    """Return what takes the exit code once the report is complete; to be called before user code runs.

    It does nothing where no `launch` started this process. User code does not see the variable: it may clear the
    environment, and start processes of its own.
    """
    path = os.environ.pop(REPORTED, None)

    def record(text: int | str) -> None:
        if path is not None:
            with contextlib.suppress(OSError):  # a full disk: then nothing says that there is a report
                Path(path).write_text(str(text), encoding="ascii")

    record(RUNNING)
    return record


def lacks_report(path: Path, code: int) -> bool:
    """Return whether user code ran in a process that ended with this exit code, and that did not report it."""
    try:
        return path.read_text(encoding="ascii") != str(code)
    except FileNotFoundError:  # it printed its help
        return False
