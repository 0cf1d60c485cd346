"""Where samebits keeps what it would otherwise compute again."""

from __future__ import annotations

import contextlib
import math
import os
import re
import tempfile
from pathlib import Path

import platformdirs

from samebits.errors import RequestError

# Sizes of memory and of files, as users write them.
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:([KMGT])(i?B)?|B)?", re.IGNORECASE)
_POWERS = {"k": 1, "m": 2, "g": 3, "t": 4}


def parse_size(text: str, place: str, expected: str, *, with_unit: bool = False) -> int:
    """Return a size in bytes: `8G` and `8GiB` are 8 * 2**30, `8GB` is 8 * 10**9; without a unit it is in bytes.

    Args:
        text: as the user wrote it.
        place: where it was written, for the message.
        expected: what is expected there, for the message.
        with_unit: whether all but 0 need a unit.

    Raises:
        RequestError: it is not a size.
    """
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

    Raises:
        RequestError: that folder is another user's, whose results must not be believed.
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
    """Return how many bytes the remembered results may take; with 0, nothing is remembered.

    Raises:
        RequestError: what is set is not a size.
    """
    text, place = limit_text()
    return parse_limit(text, place)


def parse_limit(text: str, place: str) -> int:
    """Return a limit in bytes.

    Args:
        text: such as `500MB` or `2 GB`; `0` needs no unit.
        place: where it was written, for the message.

    Raises:
        RequestError: it is not a size.
    """
    return parse_size(text, place, "0, or a number with a unit, such as 500MB", with_unit=True)
