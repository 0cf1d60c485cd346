"""Where samebits keeps what it would otherwise compute again, how large that is, and how to empty it."""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import re
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from samebits.errors import RequestError
from samebits.host.output_files import write_text

# Sizes of memory and of files, as users write them.
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:([KMGT])(i?B)?|B)?", re.IGNORECASE)
_POWERS = {"k": 1, "m": 2, "g": 3, "t": 4}


def parse_size(text: str, place: str, expected: str, *, with_unit: bool = False) -> int:
    """Return a size in bytes: `8G` and `8GiB` are 8 * 2**30, `8GB` is 8 * 10**9; without a unit it is in bytes."""
    match = _SIZE.fullmatch(text.strip())
    size = math.inf
    if match is not None and not (with_unit and match[2] is None and text.strip() != "0"):
        unit, suffix = (match[2] or "").lower(), (match[3] or "").lower()
        size = float(match[1]) * (1000 if suffix == "b" else 1024) ** _POWERS.get(unit, 0)
    if size == math.inf:
        raise RequestError(f"{place}: '{text}' is not a size; expected {expected}")
    return int(size)


VARIABLE = "SAMEBITS_CACHE_DIR"
"""The environment variable that moves all caches."""

LIMIT_VARIABLE = "SAMEBITS_CACHE_LIMIT"
"""The environment variable with the limit, before the file."""

LIMIT_FILE = "limit.txt"
"""In the folder of all caches: the limit as the user wrote it."""

DEFAULT_LIMIT = "512MB"
"""How large the remembered results may become; those of 27 pairs take less than one."""

CACHES = {
    "verdicts": "results of samebits check",
    "compiled": "programs compiled for a target",
    "steps": "compiled training steps, on GPU and TPU",
    "journals": "journals of interrupted runs, for --resume",
    "bisect": "journals of bisections",
    "toolchains": "environments of bisect commits",
}
"""Each cache and what it holds."""


def cache_root() -> Path:
    """Return the folder of all caches: samebits in the user's cache folder, or `SAMEBITS_CACHE_DIR` if that is set.

    Of a user without a home, a temporary folder of that user's.
    """
    override = os.environ.get(VARIABLE)
    if override:
        return Path(override)
    try:
        return Path(platformdirs.user_cache_dir("samebits"))
    except RuntimeError:  # a user without a home, as in a container that runs under any number
        return _temporary(Path(tempfile.gettempdir(), f"samebits-{os.getuid()}"))


def _temporary(folder: Path) -> Path:
    with contextlib.suppress(OSError):  # it exists, or what is written there says what is wrong
        folder.mkdir(mode=0o700)
    if folder.exists() and folder.lstat().st_uid != os.getuid():
        raise RequestError(f"{folder} belongs to another user; set {VARIABLE} to a folder of your own")
    return folder


def cache_folder(name: str) -> Path:
    """Return the folder of one cache, such as `compiled`."""
    return cache_root() / name


def limit_text() -> tuple[str, str]:
    """Return how large the remembered results may become, as it was written, and where."""
    if os.environ.get(LIMIT_VARIABLE):
        return os.environ[LIMIT_VARIABLE], LIMIT_VARIABLE
    path = cache_root() / LIMIT_FILE
    try:
        text = path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:  # none is set
        text = ""
    return (text, str(path)) if text else (DEFAULT_LIMIT, "the default")


def limit() -> int:
    """Return how many bytes the remembered results may take; with 0, nothing is remembered."""
    text, place = limit_text()
    return parse_limit(text, place)


def parse_limit(text: str, place: str) -> int:
    """Return a limit in bytes."""
    return parse_size(text, place, "0, or a number with a unit, such as 500MB", with_unit=True)


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
    """Return what a cache holds now."""
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
    """Remove the entries of a cache, or those unused for `days`, and count them; journals of runs under way stay."""
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
    """Set how large the remembered results may become, for all runs from now on."""
    parse_limit(text, "samebits cache limit")
    try:
        cache_root().mkdir(parents=True, exist_ok=True)
        write_text(cache_root() / LIMIT_FILE, text + "\n")
    except OSError as error:
        place = error.filename or cache_root() / LIMIT_FILE
        raise RequestError(f"{place}: cannot be written: {error.strerror}") from None


def _children(folder: Path) -> list[Path]:
    """Return what is in the folder of a cache."""
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
