"""Keeps the memory of large arrays for the next ones: to map it anew takes a quarter of the time of a verdict."""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Iterator
from typing import Any

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_KEPT, _USUAL = 1 << 30, 128 << 10
"""Up to which size glibc takes an array from memory that was freed, in bytes: inside, and by default."""


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
