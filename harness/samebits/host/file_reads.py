"""What the user's code opens while it is loaded and traced: data files and folders, and what cannot be compared.

Python reports each of these events to an audit hook. It is noted for the whole process, not for who reads: what is
remembered without tracing rests on all of it.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import hashlib
import importlib.util
import os
import platform
import re
import shutil
import stat
import sys
import threading
import time
from collections.abc import Iterable
from types import FrameType
from typing import Any

from samebits.host.cache_folder import CACHES, cache_root
from samebits.host.installed import PACKAGE, is_installed

FILE, FOLDER, HOST, OUTSIDE = "file:", "folder:", "host:", "outside:"
"""How a read begins: the content of a file, the names in a folder, the name of the machine, or what cannot be compared.
"""

CHANGED = "changed meanwhile"
"""How a read ends that says so."""

_OUTSIDE = {
    "subprocess.Popen": "starts another program",
    "os.system": "starts another program",
    "os.posix_spawn": "starts another program",
    "os.exec": "starts another program",
    "os.fork": "starts another process",
    "os.forkpty": "starts another process",
    "socket.connect": "connects to a host",
    "sqlite3.connect": "opens a database",
}
_FOLDERS = ("os.listdir", "os.scandir")
_FILES = ("open", "ctypes.dlopen")
_OF_THE_SYSTEM = ("/proc/", "/sys/", "/dev/")
_COMPILED = ("-cache", "-atime", ".lockfile")
"""How the names of the files end in which jax keeps compiled programs."""

_OWN_ROOMS = (
    *(os.path.join(PACKAGE, room, "") for room in ("host", "engine", "bisect", "report", "cli")),
    *(os.path.join(PACKAGE, file) for file in ("__main__.py", os.path.join("programs", "catalogue.py"))),
)
"""The rooms and modules of samebits that read for themselves, and never call a function of the user's directly."""

_ASKS_FOR_HOST = re.compile(rb"gethostname|getfqdn|uname|HOSTNAME|\b(?:import|from) platform\b")
"""What the text of code has that may ask for the name of the machine."""


_IMPORT = "<frozen importlib._bootstrap_external>"
"""Python's own import, which lists folders."""


class FileReads:
    """What was read in this process since the first call of `look`; a hook of Python's cannot be taken away again."""

    def __init__(self) -> None:
        self._began = 0
        self._elsewhere: set[str] = set()
        self._reads: dict[str, tuple[int, ...] | str | None] = {}
        self._written: set[str] = set()
        self._first: dict[str, int] = {}
        self._noting = threading.local()
        self._events = frozenset((*_FILES, *_FOLDERS, *_OUTSIDE))

    def look(self) -> None:
        """Note reads from now on."""
        if not self._began:
            self._began = time.time_ns()
            sys.addaudithook(self._audit)
            atexit.register(self._end)

    def add(self, reads: Iterable[str]) -> None:
        """Count what another process read for this one, as its `all` told."""
        self._elsewhere.update(reads)

    def all(self) -> tuple[str, ...]:
        """Return what users' code has read so far, and the files of their modules.

        What it wrote itself and removed does not count; what it leaves behind, the next run may read as it is.
        """
        own = {read for read in list(self._reads) if _path(read) in self._written}
        kept = {read for read in own if os.path.exists(_path(read))}
        others = {self._said(read, stamp) for read, stamp in list(self._reads.items()) if read not in own}
        modules = loaded_files()
        host = {HOST} if any(map(_asks_for_host, modules)) else set()
        loaded = {self._said(FILE + file, None) for file in modules}
        return tuple(sorted({*self._elsewhere, *kept, *others, *loaded, *host}))

    def is_stale(self, path: str) -> bool:
        """Return whether a file was changed after this process first opened it, and may have retained its content."""
        try:
            return os.stat(path).st_ctime_ns > self._first.get(_real(path), self._began or time.time_ns())
        except OSError:  # it does not exist
            return False

    def _said(self, read: str, stamp: tuple[int, ...] | str | None) -> str:
        """Return a read, or that it cannot be compared since another file or folder is there now."""
        path = _path(read)
        moved = stamp is not None and stamp != _stamp(read)
        changed = moved or (read.startswith(FILE) and self.is_stale(path))
        return f"{OUTSIDE}reads {path}, which {CHANGED}" if changed else read

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
            self._reads[f"{OUTSIDE}reads what cannot be named"] = None
        finally:
            self._noting.now = False

    def _note(self, event: str, arguments: tuple[Any, ...]) -> None:
        frame = sys._getframe(2)
        read = self._read(event, arguments, frame)
        if read is not None and read not in self._reads and _is_for_user(frame, read):
            self._reads[read] = None if read.startswith(OUTSIDE) else _stamp(read)

    def _read(self, event: str, arguments: tuple[Any, ...], frame: FrameType) -> str | None:
        """Return what an event reads; None where it writes, or reads what need not be noted."""
        if event in _OUTSIDE:
            return OUTSIDE + _OUTSIDE[event]
        opened, mode = arguments[0], arguments[1] if event == "open" else "r"
        code = frame.f_code
        for_others = code.co_filename == _IMPORT or (code.co_filename == shutil.__file__ and "rmtree" in code.co_name)
        if for_others and (event in _FOLDERS or mode is None):
            return None
        if event == "open" and _adds(mode, arguments[2]):
            return None
        if isinstance(opened, int) and event in _FOLDERS:
            return f"{OUTSIDE}lists a folder that is open"
        if not isinstance(opened, str | bytes | os.PathLike):
            return None
        name = os.fsdecode(opened)
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
        if event == "open" and _writes(mode, arguments[2]):
            if FILE + path not in self._reads:
                self._written.add(path)
            return None
        self._first.setdefault(_real(path), time.time_ns())
        return f"{OUTSIDE}reads {path}, which is a pipe" if _is_pipe(path) else FILE + path


READS = FileReads()
"""Of this process: there is one audit hook."""


def loaded_files() -> set[str]:
    """Return the files of modules that were imported and that are neither installed nor of samebits itself."""
    files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    return {_real(file) for file in files if isinstance(file, str) and _is_users(file)}


def state_of(read: str) -> str:
    """Return the digest of what was read, as it is now; of what does not exist, an empty text."""
    if read == HOST:
        return hashlib.sha256(platform.node().encode()).hexdigest()
    try:
        if read.startswith(FOLDER):
            names = sorted(name for name in os.listdir(read.removeprefix(FOLDER)) if name != "__pycache__")
            return hashlib.sha256(repr(names).encode()).hexdigest()
        path = read.removeprefix(FILE)
        if _is_pipe(path):  # to open it would wait for who writes
            return "a pipe"
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:  # it does not exist, or is a folder
        return ""


def _is_for_user(frame: FrameType | None, read: str) -> bool:
    """Return whether it is not samebits itself that reads there, for its keys, digests and documents.

    In a thread that has no code of either, a pool reads for the code that waits for it.
    """
    while frame is not None:
        kind = _kind(frame.f_code.co_filename)
        if kind is not None:
            return kind
        frame = frame.f_back
    return threading.current_thread() is not threading.main_thread() and os.path.isfile(read.removeprefix(FILE))


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


def _writes(mode: Any, flags: Any) -> bool:
    """Return whether a file is opened to be written anew: what was in it before does not count."""
    if isinstance(mode, str):
        return mode.replace("b", "").replace("t", "") in ("w", "w+", "x", "x+")
    return isinstance(flags, int) and bool(flags & (os.O_TRUNC | os.O_EXCL))


def _adds(mode: Any, flags: Any) -> bool:
    """Return whether a file is opened only to write more into it: nothing is read, and what was in it stays."""
    if isinstance(mode, str):
        return mode.replace("b", "").replace("t", "") == "a"
    return isinstance(flags, int) and bool(flags & os.O_WRONLY) and not _writes(mode, flags)


@functools.lru_cache(maxsize=65536)
def _source_of(path: str) -> str:
    """Return the source of a compiled module, or the file itself."""
    with contextlib.suppress(ValueError, NotImplementedError):
        return importlib.util.source_from_cache(path) if path.endswith(".pyc") else path
    return path


@functools.lru_cache(maxsize=65536)
def _is_of_library(path: str) -> bool:
    """Return whether a file is installed, and not linked to from there, as packages under development are."""
    return is_installed(path) and is_installed(os.path.realpath(path))


@functools.lru_cache(maxsize=65536)
def _is_users(file: str) -> bool:
    return not _is_of_library(file) and os.path.isfile(file)


def _is_cached(path: str) -> bool:
    """Return whether a file holds what runs compute: samebits' own caches, and jax's compiled programs."""
    root = str(cache_root())
    if path.startswith(tuple(os.path.join(root, name, "") for name in CACHES)):
        return True
    folder = getattr(getattr(sys.modules.get("jax"), "config", None), "jax_compilation_cache_dir", None)
    if not folder:
        return False
    # Not all of the folder: people may have data in it too.
    inside = os.path.relpath(path, os.path.abspath(str(folder)))
    return (os.sep not in inside and inside.endswith(_COMPILED)) or inside.startswith("xla_gpu_") or inside == os.curdir


def _asks_for_host(file: str) -> bool:
    state = os.stat(file) if os.path.exists(file) else None
    return state is not None and _host_in(file, state.st_size, state.st_mtime_ns)


@functools.lru_cache(maxsize=16384)
def _host_in(file: str, *_state: int) -> bool:
    try:
        with open(file, "rb") as text:
            return _ASKS_FOR_HOST.search(text.read()) is not None
    except OSError:  # removed meanwhile
        return False


def _path(read: str) -> str:
    return read.removeprefix(FILE).removeprefix(FOLDER)


def _is_pipe(path: str) -> bool:
    try:
        return stat.S_ISFIFO(os.stat(path).st_mode)
    except OSError:  # it does not exist
        return False


@functools.lru_cache(maxsize=65536)
def _real(path: str) -> str:
    """Return a source without links."""
    return os.path.realpath(_source_of(path))


def _stamp(read: str) -> tuple[int, ...] | str:
    """Return what shows that a file or a folder is another one than before; empty where it does not exist."""
    if read.startswith(FOLDER):
        return state_of(read)
    try:
        there = os.stat(read.removeprefix(FILE))
    except OSError:  # it does not exist
        return ()
    return there.st_dev, there.st_ino, there.st_size, there.st_mtime_ns, there.st_ctime_ns
