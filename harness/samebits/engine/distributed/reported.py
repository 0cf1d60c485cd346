"""How a process tells the `launch` that started it that its report is complete: user code may end it with code 0."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

REPORTED = "SAMEBITS_REPORTED"
"""The variable with the file into which a process writes its exit code."""


def recorder() -> Callable[[int], None]:
    """What takes the exit code once the report is complete; it does nothing where no `launch` started this process.

    User code does not see the variable: it may clear the environment, and start processes of its own.
    """
    path = os.environ.pop(REPORTED, None)

    def record(code: int) -> None:
        if path is not None:
            with contextlib.suppress(OSError):  # a full disk: then nothing says that there is a report
                Path(path).write_text(str(code), encoding="ascii")

    return record


def reported(path: Path) -> int | None:
    """The exit code that a process has written; None where it has not.

    Args:
        path: the file.
    """
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):  # not there, or cut off
        return None
