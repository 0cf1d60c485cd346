"""What an event of Python's audit hook is about: which path was opened and how, and whose code is on the stack."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import inspect
import os
import shutil
import sys
import urllib.parse
from collections.abc import Iterator
from types import FrameType
from typing import Any

from samebits.host.cache_folder import CACHES, cache_root
from samebits.host.installed import NAMES, is_installed
from samebits.host.package import PACKAGE

FOLDERS = ("os.listdir", "os.scandir")
"""Events that list a folder."""

_CALLBACKS = os.path.join("jax", "_src", "callback.py")
_OF_THE_SYSTEM = ("/proc/", "/sys/", "/dev/")
_SHARED_MEMORY = "/dev/shm/"
"""The folder of `/dev/` in which people keep files."""

_COMPILED = ("-cache", "-atime", ".lockfile")
"""How the names of the files end in which jax keeps compiled programs."""

_OF_XLA = "xla_gpu_"
"""How the names of the files and folders begin that XLA keeps beside them."""


_READING_ROOMS = tuple(os.path.join(PACKAGE, room, "") for room in ("host", "engine", "bisect", "report", "cli"))
"""The rooms of samebits that read files for themselves, and never call a function of the user's directly."""

_PYTHON = os.path.join(os.path.realpath(os.path.dirname(os.__file__)), "")


def is_in_callback(frame: FrameType | None) -> bool:
    """Whether jax calls back into Python there."""
    while frame is not None:
        if frame.f_code.co_filename.endswith(_CALLBACKS):
            return True
        frame = frame.f_back
    return False


def is_relative(opened: Any, mode: Any) -> bool:
    """Whether `os.open`, whose events have no mode, was given a path that is relative, perhaps to an open folder."""
    return mode is None and isinstance(opened, str | bytes | os.PathLike) and not os.path.isabs(os.fsdecode(opened))


def looks_for_modules(frame: FrameType | None) -> bool:
    """Whether it is Python's own import that lists a folder."""
    return frame is not None and frame.f_code.co_filename.startswith("<frozen importlib")


def removes(frame: FrameType | None) -> bool:
    """Whether it is `shutil.rmtree` that lists folders, as at the end of every temporary one."""
    return frame is not None and frame.f_code.co_filename == shutil.__file__ and "rmtree" in frame.f_code.co_name


def opened_by(event: str, arguments: tuple[Any, ...]) -> Any:
    """What an event is about: a path, or the number of an open file."""
    opened = arguments[1 if event == "import" else 0]
    if event == "pickle.find_class":
        return getattr(sys.modules.get(opened), "__file__", None)
    if event == "sqlite3.connect" and isinstance(opened, str) and opened.startswith("file:"):  # with uri=True
        return urllib.parse.unquote(urllib.parse.urlsplit(opened).path)
    if event in FOLDERS and isinstance(opened, int):
        return os.readlink(f"/proc/self/fd/{opened}")
    return opened


def path_of(opened: Any) -> str | None:
    """The absolute path of what is opened, the source for a compiled module; None where it need not be noted."""
    if not isinstance(opened, str | bytes | os.PathLike):
        return None  # the number of an open file
    path = os.path.abspath(os.fsdecode(opened))
    if path.endswith(".pyc"):
        path = _source_of(path)
    of_the_system = path.startswith(_OF_THE_SYSTEM) and not path.startswith(_SHARED_MEMORY)
    # Nearly all events are of libraries that are imported, and what says so is cached.
    return None if of_the_system or _is_of_library(path) or _is_cached(path) else path


@functools.lru_cache(maxsize=65536)
def _source_of(path: str) -> str:
    """The source of a compiled module, or the compiled module where it has none."""
    with contextlib.suppress(ValueError):
        return importlib.util.source_from_cache(path)
    return path


@functools.lru_cache(maxsize=65536)
def _is_of_library(path: str) -> bool:
    """Whether a file is installed, and not linked to from there, as packages under development are."""
    return is_installed(path) and is_installed(os.path.realpath(path))


def _is_cached(path: str) -> bool:
    """Whether a file holds what this or other runs compute: samebits' own caches, and jax's compiled programs."""
    root = str(cache_root())
    if path.startswith(tuple(os.path.join(root, name, "") for name in CACHES)):
        return True
    folder = getattr(getattr(sys.modules.get("jax"), "config", None), "jax_compilation_cache_dir", None)
    if not folder:
        return False
    # Not all of the folder: people may have data in it too.
    inside = os.path.relpath(path, os.path.abspath(str(folder)))
    direct = os.sep not in inside
    return (direct and inside.endswith(_COMPILED)) or inside.startswith(_OF_XLA) or inside == os.curdir


def writes(mode: Any, flags: Any) -> bool:
    """Whether a file is opened to be written anew: what was in it before does not count."""
    if isinstance(mode, str):
        return mode.replace("b", "").replace("t", "") in ("w", "w+", "x", "x+")
    return isinstance(flags, int) and bool(flags & (os.O_TRUNC | os.O_EXCL))


def appends(mode: Any, flags: Any) -> bool:
    """Whether a file is opened only to write more into it: nothing is read, and what was in it stays."""
    if isinstance(mode, str):
        return mode.replace("b", "").replace("t", "") == "a"
    return isinstance(flags, int) and bool(flags & os.O_WRONLY) and not writes(mode, flags)


def caller(hook: str) -> FrameType | None:
    """The frame that caused an event, outside of this file and that of the hook."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_filename in (__file__, hook):
        frame = frame.f_back
    return frame


def is_for_keys(frame: FrameType | None) -> bool:
    """Whether samebits itself reads there, for its keys, digests and documents: not the user's code, nor its imports.

    A test that calls samebits is on the stack then, and does not depend on all that is digested meanwhile.
    """
    kind = None
    while frame is not None and kind is None:
        kind = _is_own(frame.f_code.co_filename)
        frame = frame.f_back
    return bool(kind)


@functools.lru_cache(maxsize=65536)
def _is_own(name: str) -> bool | None:
    """Whether code is of a room that reads for itself; None for Python's own library, which anything calls."""
    if name.startswith("<"):  # Python's import is frozen too, and reads for whoever imports
        return None if name.startswith("<frozen ") and not name.startswith("<frozen importlib") else False
    path = os.path.realpath(name)  # a repository may be reached by a link
    if path.startswith(_READING_ROOMS):
        return True
    is_python = path.startswith(_PYTHON) and not any(f"{os.sep}{folder}{os.sep}" in path for folder in NAMES)
    return None if is_python else False


def readers_on(frame: FrameType | None) -> Iterator[str]:
    """The source files on the stack, without installed ones."""
    while frame is not None:
        reader = _reader(frame.f_code.co_filename)
        if reader is not None:
            yield reader
        frame = frame.f_back


@functools.lru_cache(maxsize=65536)
def _reader(name: str) -> str | None:
    return None if name.startswith("<") or _is_of_library(name) else os.path.realpath(name)
