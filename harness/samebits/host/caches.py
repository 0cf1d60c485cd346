"""The caches as a whole: how large each is, and how to empty it."""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from samebits.errors import RequestError
from samebits.host.cache_folder import CACHES, LIMIT_FILE, cache_folder, cache_root, parse_limit
from samebits.host.output_files import write_text

DAY = 86400


@dataclass(frozen=True, kw_only=True, slots=True)
class CacheRow:
    """A cache.

    Args:
        cache: its name.
        holds: what is in it.
        path: its folder.
        entries: how many there are.
        bytes: how much space they take on disk.
        oldest, newest: the days, in UTC, on which the first and the last of them was last used or written; null where
            it is empty.
        removed: how many entries were removed now.
    """

    cache: str
    holds: str
    path: str
    entries: int
    bytes: int
    oldest: str | None = None
    newest: str | None = None
    removed: int = 0


def cache_row(name: str, removed: int = 0) -> CacheRow:
    """Return what a cache holds now.

    Raises:
        RequestError: it cannot be read.
    """
    folder = cache_folder(name)
    children = _children(folder)
    times = [_stat(path)[1] for path in children]
    return CacheRow(
        cache=name,
        holds=CACHES[name],
        path=str(folder),
        entries=len(children),
        bytes=sum(_size(path) for path in children),
        oldest=_day(min(times)) if times else None,
        newest=_day(max(times)) if times else None,
        removed=removed,
    )


def clear(name: str, days: float | None = None) -> int:
    """Remove the entries of a cache, and return how many; journals of runs that are under way stay.

    Args:
        name: of the cache.
        days: only those that were last used, or written, longer ago; all by default.

    Raises:
        RequestError: the cache cannot be read, or an entry cannot be removed.
    """
    before = None if days is None else time.time() - days * DAY
    children = _children(cache_folder(name))
    count = 0
    for path in children:
        if (before is None or _stat(path)[1] < before) and not _is_written(path):
            try:
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
            except OSError as error:
                raise RequestError(f"{error.filename}: cannot be removed: {error.strerror}") from None
            count += 1
    return count


def _is_written(path: Path) -> bool:
    """Return whether a process writes a file that it has locked, as journals are."""
    if not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:  # whoever has the lock writes it
        return True
    except OSError:  # a file system without locks, or one that may not be read
        return False
    return False


def set_limit(text: str) -> None:
    """Set how large the remembered results may become, for all runs from now on.

    Raises:
        RequestError: it is not a size, or cannot be stored.
    """
    parse_limit(text, "samebits cache limit")
    try:
        cache_root().mkdir(parents=True, exist_ok=True)
        write_text(cache_root() / LIMIT_FILE, text + "\n")
    except OSError as error:
        place = error.filename or cache_root() / LIMIT_FILE
        raise RequestError(f"{place}: cannot be written: {error.strerror}") from None


def _children(folder: Path) -> list[Path]:
    """Return what is in the folder of a cache.

    Raises:
        RequestError: it cannot be read.
    """
    try:
        os.stat(folder / ".")  # which one that may be listed, but not entered, does not allow
        return sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):  # there is no such cache yet
        return []
    except OSError as error:
        raise RequestError(f"{folder}: cannot be read: {error.strerror}") from None


def _size(path: Path) -> int:
    if not path.is_dir() or path.is_symlink():
        return _stat(path)[0]
    return sum(_stat(Path(place, name))[0] for place, _, names in os.walk(path) for name in names)


def _stat(path: Path) -> tuple[int, float]:
    """Return the size and the time of the last write; nothing of what another process has just removed."""
    try:
        status = path.lstat()
    except OSError:  # removed meanwhile
        return 0, time.time()
    return status.st_size, status.st_mtime


def _day(moment: float) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(moment))
