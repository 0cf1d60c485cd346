"""What the user's code opens while it is loaded, traced and called: data files and folders, and what has no digest.

Needed for safety: an untouched tree is not traced again, and digests of its sources do not have the data that it reads.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import hashlib
import importlib.util
import os
import shutil
import sys
import threading
import time
from collections.abc import Iterable
from types import FrameType
from typing import Any

from samebits.host.cache_folder import CACHES, cache_root
from samebits.host.installed import PACKAGE, is_installed

FILE, FOLDER, OUTSIDE = "file:", "folder:", "outside:"
"""How a read begins: the content of a file, the names in a folder, or what has no digest."""

MEANWHILE = "was removed meanwhile"
"""How a read ends that says so."""

_OUTSIDE = {
    "subprocess.Popen": "starts another program",
    "os.system": "starts another program",
    "os.posix_spawn": "starts another program",
    "os.exec": "starts another program",
    "os.fork": "starts another process",
    "os.forkpty": "starts another process",
    "socket.connect": "connects to a host",
    "socket.gethostname": "asks for the name of the machine",
    "sqlite3.connect": "opens a database",
}
_FOLDERS = ("os.listdir", "os.scandir")
_FILES = ("open", "ctypes.dlopen")
_OF_THE_SYSTEM = ("/proc/", "/sys/", "/dev/")

_OWN_ROOMS = (
    *(os.path.join(PACKAGE, room, "") for room in ("host", "engine", "bisect", "report", "cli")),
    *(os.path.join(PACKAGE, file) for file in ("__main__.py", os.path.join("programs", "catalogue.py"))),
)
"""The rooms and modules of samebits that read for themselves, and never call a function of the user's directly."""


class FileReads:
    """What was read in this process since the first call of `look`; a hook of Python's cannot be taken away again.

    `began` is the moment at which the command began; 0 outside of one.
    """

    def __init__(self) -> None:
        self.began = 0
        self._looks = False
        self._reads: dict[str, bool] = {}
        self._written: set[str] = set()
        self._noting = threading.local()
        self._events = frozenset((*_FILES, *_FOLDERS, *_OUTSIDE))

    def begin(self) -> None:
        """Note reads from now on, for a command that begins now."""
        self.began = time.time_ns()
        self.look()

    def look(self) -> None:
        """Note reads from now on."""
        if not self._looks:
            self._looks = True
            sys.addaudithook(self._audit)
            atexit.register(self._end)

    def add(self, reads: Iterable[str]) -> None:
        """Count what another process read for this one, as its `all` says."""
        self._reads.update(dict.fromkeys(reads, False))

    def all(self) -> tuple[str, ...]:
        """Return what users' code has read so far, and the files of their modules; not what it wrote and removed."""
        reads = {FILE + file for file in loaded_files()}
        for read, existed in list(self._reads.items()):
            path = path_of(read)
            if not existed or os.path.exists(path):
                reads.add(read)
            elif path not in self._written:
                reads.add(f"{OUTSIDE}reads {path}, which {MEANWHILE}")
        return tuple(sorted(reads))

    def changed(self, paths: Iterable[str]) -> str | None:
        """Return a file or folder that has changed since the command began: what was read of it has no digest."""
        if not self.began:
            return None
        return next((path for path in paths if any(moment > self.began for moment in _change_times(path))), None)

    def _end(self) -> None:
        """Note nothing while Python ends: this module's names are gone then, and files are opened still."""
        self._events = frozenset()

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event not in self._events or getattr(self._noting, "now", False):
            return
        self._noting.now = True  # to look at a file is an event too
        try:
            self._note(event, arguments)
        except Exception:  # an exception here would be one of the user's `open`
            self._reads[f"{OUTSIDE}reads what cannot be named"] = False
        finally:
            self._noting.now = False

    def _note(self, event: str, arguments: tuple[Any, ...]) -> None:
        frame = sys._getframe(2)
        for_user = _is_for_user(frame)
        read = None if for_user is False else self._read(event, arguments, frame)
        if read is None or read in self._reads:
            return
        # In a thread that has no code of either, a pool reads for the code that waits for it.
        if for_user or (threading.current_thread() is not threading.main_thread() and os.path.isfile(path_of(read))):
            self._reads[read] = os.path.exists(path_of(read))

    def _read(self, event: str, arguments: tuple[Any, ...], frame: FrameType) -> str | None:
        """Return what an event reads; None where it writes, or reads what need not be noted."""
        if event in _OUTSIDE:
            return OUTSIDE + _OUTSIDE[event]
        opened, mode, flags = (*arguments, None, None)[:3] if event == "open" else (arguments[0], "r", 0)
        # Python's import, its look for distributions and `shutil.rmtree` list and open folders for their own purposes.
        code = frame.f_code
        for_others = code.co_filename.startswith(_FINDERS) or (
            code.co_filename == shutil.__file__ and "rmtree" in code.co_name
        )
        if for_others and (event in _FOLDERS or mode is None):
            return None
        if isinstance(opened, int) and event in _FOLDERS:
            return f"{OUTSIDE}lists a folder that is open"
        if not isinstance(opened, str | bytes | os.PathLike):
            return None
        name = os.fsdecode(opened)
        if not _reads(mode, flags):
            self._written.add(os.path.abspath(name))
            return None
        if event == "ctypes.dlopen" and os.sep not in name:
            return f"{OUTSIDE}loads {name} from wherever the system has it"
        if event == "open" and mode is None and not os.path.isabs(name):
            return f"{OUTSIDE}opens {name}, perhaps in a folder that is open (dir_fd)"
        path = _source_of(os.path.abspath(name))
        if path.startswith(_OF_THE_SYSTEM) and not path.startswith("/dev/shm/"):
            return None
        if _is_of_library(path) or _is_cached(path):
            return None
        if event in _FOLDERS or os.path.isdir(path):
            return FOLDER + path
        is_special = os.path.exists(path) and not os.path.isfile(path)
        return f"{OUTSIDE}reads {path}, which is not a regular file" if is_special else FILE + path


READS = FileReads()
"""Of this process: there is one audit hook."""

_FINDERS = (
    "<frozen importlib._bootstrap_external>",
    os.path.join(os.path.dirname(os.__file__), "importlib", "metadata", ""),
)
"""Whose code finds modules and distributions: what may be there is known of every folder on Python's path."""


def loaded_files() -> set[str]:
    """Return the files of modules that were imported and that are neither installed nor of samebits itself."""
    files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    return {_real(file) for file in files if isinstance(file, str) and _is_users(file)}


def path_of(read: str) -> str:
    """Return the file or folder of a read; the text itself where it has neither."""
    return read.removeprefix(FILE).removeprefix(FOLDER)


def state_of(read: str) -> str:
    """Return the digest of what was read, as it is now; of what does not exist, an empty text."""
    try:
        if read.startswith(FOLDER):
            names = sorted(name for name in os.listdir(path_of(read)) if name != "__pycache__")
            return hashlib.sha256(repr(names).encode()).hexdigest()
        with open(path_of(read), "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:  # it does not exist, or is a folder
        return ""


def _change_times(path: str) -> list[int]:
    """Return when a path was changed last, and where it is a link, when the link was."""
    try:
        return [os.lstat(path).st_ctime_ns, os.stat(path).st_ctime_ns]
    except OSError:  # it does not exist
        return []


def _is_for_user(frame: FrameType | None) -> bool | None:
    """Return whether user code reads there, and not samebits for itself; None where there is code of neither."""
    while frame is not None:
        kind = _kind(frame.f_code.co_filename)
        if kind is not None:
            return kind
        frame = frame.f_back
    return None


@functools.lru_cache(maxsize=65536)
def _kind(name: str) -> bool | None:
    """Return whether code is the user's, or of a room of samebits that calls it; None for libraries."""
    if name.startswith("<"):  # Python's own import; typed code has no frame of a file below it
        return None if name.startswith("<frozen ") else True
    path = os.path.realpath(name)  # a repository may be reached by a link
    if path.startswith(_OWN_ROOMS):
        return False
    if path.startswith(str(PACKAGE) + os.sep):
        return True
    return None if _is_of_library(path) else True


def _reads(mode: Any, flags: Any) -> bool:
    """Return whether what a file had before is read: not where it is written anew, or only appended to."""
    if isinstance(mode, str):
        return "r" in mode or ("a" in mode and "+" in mode)
    return not isinstance(flags, int) or not flags & (os.O_TRUNC | os.O_EXCL | os.O_WRONLY)


@functools.lru_cache(maxsize=65536)
def _source_of(path: str) -> str:
    """Return the source of a compiled module, or the file itself."""
    with contextlib.suppress(ValueError, NotImplementedError):
        return importlib.util.source_from_cache(path) if path.endswith(".pyc") else path
    return path


@functools.lru_cache(maxsize=65536)
def _real(path: str) -> str:
    """Return a source without links."""
    return os.path.realpath(_source_of(path))


@functools.lru_cache(maxsize=65536)
def _is_of_library(path: str) -> bool:
    """Return whether a file is installed, and not linked to from there, as packages under development are."""
    return is_installed(path) and is_installed(os.path.realpath(path))


@functools.lru_cache(maxsize=65536)
def _is_users(file: str) -> bool:
    return not _is_of_library(file) and os.path.isfile(file)


def _is_cached(path: str) -> bool:
    """Return whether a file holds what runs compute: in samebits' own caches, or in jax's."""
    folders = [os.path.join(cache_root(), name) for name in CACHES]
    folders.append(getattr(getattr(sys.modules.get("jax"), "config", None), "jax_compilation_cache_dir", None) or "")
    return any(folder and f"{path}/".startswith(os.path.join(os.path.abspath(folder), "")) for folder in folders)
