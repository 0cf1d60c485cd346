"""How much memory this machine or container has, and how much a process holds."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from samebits.host.processors import control_groups, lines_of

GIB = 2**30

WORKERS_SHARE = 0.8
"""What all workers may hold together, of all memory; the rest is for the driving process and for the system."""


def total_memory(root: Path = Path("/")) -> int:
    """Return the bytes that this process and its children may hold: physical memory, or a control group's limit."""
    try:
        physical: int = psutil.virtual_memory().total
    except OSError:  # /proc is not mounted
        physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min([physical, *_control_group_limits(root)])


def memory_limit_per_worker(workers: int, root: Path = Path("/")) -> int:
    """Return how many bytes one of several worker processes may hold.

    A share of the total and not of what is free now: a busy neighbour must not change which points can be decided.
    """
    return int(total_memory(root) * WORKERS_SHARE) // workers


def resident_bytes(pid: int) -> int | None:
    """Return how much physical memory a process holds, without its children; None where that cannot be read."""
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        return int(process.memory_info().rss)
    except psutil.Error:  # ended meanwhile, or another user's
        return None


def end_first() -> None:
    """Have the system end this process before the one that drives it, where memory runs out all the same."""
    with contextlib.suppress(OSError):  # not Linux, or not permitted
        Path(f"/proc/{os.getpid()}/oom_score_adj").write_text("500")


def kill_children(pid: int) -> None:
    """Kill what a process has started, directly or not: otherwise it would keep running, and hold its memory."""
    with contextlib.suppress(psutil.Error, OSError):  # ended meanwhile, another user's, or no file can be opened
        for child in psutil.Process(pid).children(recursive=True):
            child.kill()


def kill_rest_of_group(leader: int) -> None:
    """Kill the processes left in a process group whose leader has ended; nothing if the leader still runs.

    While one of them runs, the system does not reuse the leader's number.
    """
    with contextlib.suppress(psutil.Error):  # as expected: the leader is gone
        if psutil.Process(leader).status() != psutil.STATUS_ZOMBIE:
            return
    with contextlib.suppress(OSError):  # the group is empty
        os.killpg(leader, signal.SIGKILL)


def gibibytes(size: int) -> str:
    """Return a size in words, such as `9.4 GiB`."""
    return f"{size / GIB:.1f} GiB"


def _control_group_limits(root: Path) -> Iterator[int]:
    """Yield the limits of this process's control group and of all above it."""
    for folder, version in control_groups("memory", root):
        for text in lines_of(folder / ("memory.max" if version == 2 else "memory.limit_in_bytes")):
            if text.isdigit():  # version 2 writes "max" where there is no limit
                yield int(text)


# Memory of large arrays that is kept for the next ones: to map it anew takes a quarter of the time of a verdict.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_KEPT, _USUAL = 1 << 30, 32 << 20
"""Bytes up to which glibc reuses freed memory for an array: inside, and afterwards, the most that it sets by itself."""


@contextlib.contextmanager
def kept_memory() -> Iterator[None]:
    """Keep freed memory for the next arrays inside, and give it back to the system outside; glibc alone can.

    Equivalent to `MALLOC_MMAP_THRESHOLD_` and `MALLOC_TRIM_THRESHOLD_` of mallopt(3) for a part of a program.
    """
    library = _glibc()
    if library is None:
        yield
        return
    try:
        for threshold in (_MMAP_THRESHOLD, _TRIM_THRESHOLD):
            library.mallopt(threshold, _KEPT)
        yield
    finally:
        for threshold in (_MMAP_THRESHOLD, _TRIM_THRESHOLD):
            library.mallopt(threshold, _USUAL)
        library.malloc_trim(0)


@functools.cache
def _glibc() -> Any:
    """Return the C library of this process; None where it is another one."""
    try:
        library = ctypes.CDLL(None)
    except (OSError, TypeError):  # as on Windows
        return None
    return library if hasattr(library, "mallopt") and hasattr(library, "malloc_trim") else None
