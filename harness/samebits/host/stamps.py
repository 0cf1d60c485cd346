"""What shows that a file is as it was, without reading it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Stamp:
    """What shows whether a file was changed, without reading it.

    Args:
        state: size, time of the change of its content and of the file itself, and its number on the device.
        changed: when the file itself was last changed, in nanoseconds; unlike the time of its content, it cannot be
            set back.
    """

    state: tuple[int, ...]
    changed: int

    @classmethod
    def of(cls, path: str | Path) -> Stamp:
        """The stamp of a file or folder; of one that does not exist, an empty one."""
        try:
            status = os.stat(path)
        except OSError:  # it does not exist, or no longer
            return cls((), 0)
        state = (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_dev)
        return cls(state, status.st_ctime_ns)
