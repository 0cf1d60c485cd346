"""What the user's code reads while it is loaded, traced and run: data files, folders, modules with computed names.

Python reports every file that it opens to an audit hook. A read counts for the source files that were on the stack
then, so that it is known of a pair also where another pair, loaded before, had the same helper read the file. In a
thread without any, as of a pool, it counts for those on the stack of the main thread. What is read below Python, by a
library in C, is not seen.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import inspect
import os
import shutil
import sys
import threading
import time
import urllib.parse
from collections.abc import Collection, Iterable, Iterator
from types import FrameType
from typing import Any

from samebits.host.cache_folder import CACHES, cache_root
from samebits.host.installed import is_installed

FILE, FOLDER, MODULES, VARIABLE, OUTSIDE = "file:", "folder:", "modules:", "variable:", "outside:"
"""How a read begins: the content of a file, the names in a folder, those of its modules, an environment variable, or
what cannot be compared."""

CHANGED = "changed meanwhile"
"""How a read ends that says so."""

_OUTSIDE = {
    "subprocess.Popen": "starts another program",
    "os.system": "starts another program",
    "os.posix_spawn": "starts another program",
    "os.exec": "starts another program",
    "os.fork": "starts another process",
    "socket.connect": "connects to a host",
}

_FILES = ("open", "ctypes.dlopen", "sqlite3.connect", "import")
_FOLDERS = ("os.listdir", "os.scandir")
_SUFFIXES = (".py", ".so", ".pyd")
_ANY = "*"
"""The reader of what a callback of jax reads without a frame of the user's, as where it is `np.load` itself."""

_CALLBACKS = os.path.join("jax", "_src", "callback.py")
_OF_THE_SYSTEM = ("/proc/", "/sys/", "/dev/")
_SHARED_MEMORY = "/dev/shm/"
"""The folder of `/dev/` in which people keep files."""


class FileReads:
    """What was read in this process since the first call of `look`; a hook of Python's cannot be taken away again."""

    def __init__(self) -> None:
        self._imported = time.time_ns()
        self._elsewhere: set[str] = set()
        self._before: frozenset[str] | None = None
        self._reads: dict[str, set[str]] = {}
        self._first: dict[str, int] = {}
        self._written: dict[str, set[str]] = {}
        self._stamps: dict[str, tuple[int, ...] | str | None] = {}

    def look(self) -> None:
        """Note reads from now on."""
        if self._before is None:
            files = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
            self._before = frozenset(os.path.realpath(file) for file in files if file)
            sys.addaudithook(self._audit)

    def add(self, reads: Iterable[str]) -> None:
        """Count what another process read for this one, as its `all` told."""
        self._elsewhere.update(reads)

    def of(self, sources: Collection[str], *, modules: bool = False) -> tuple[str, ...]:
        """What was read while one of these files was on the stack, without the files themselves.

        Args:
            sources: absolute paths.
            modules: also every module that any file imported, for sources that compute the names of their imports.
        """
        reads = set()
        for read, readers in list(self._reads.items()):
            path = read.removeprefix(FILE)
            wanted = _ANY in readers or not readers.isdisjoint(sources) or (modules and read.endswith(_SUFFIXES))
            # What a file reads back that it wrote itself is computed from what else it depends on; what it leaves
            # behind may be read by the next run without being written again.
            own = not self._written.get(path, set()).isdisjoint(sources)
            wanted = wanted and not (own and not os.path.exists(path))
            if wanted and os.path.realpath(path) not in sources:
                reads.add(read if own else self._said(read))
        return tuple(sorted(reads))

    def _said(self, read: str) -> str:
        """A read, or that it cannot be compared since another file or folder is there now."""
        path = read.removeprefix(FILE)
        moved = read in self._stamps and self._stamps[read] != _stamp(read)
        return f"{OUTSIDE}reads {path.removeprefix(FOLDER)}, which {CHANGED}" if moved or self.is_stale(path) else read

    def all(self) -> tuple[str, ...]:
        """What any file of users has read so far, without what it wrote itself and removed."""
        written = {f"{FILE}{path}": os.path.exists(path) for path in list(self._written)}
        reads = [read for read in list(self._reads) if written.get(read, True)]
        return tuple(sorted({*self._elsewhere, *(read if read in written else self._said(read) for read in reads)}))

    def is_stale(self, path: str) -> bool:
        """Whether a file was changed after this process first opened it, and may have retained what was in it."""
        real = os.path.realpath(path)
        since = self._imported if real in (self._before or ()) else self._first.get(real)
        try:
            return since is not None and os.stat(path).st_ctime_ns > since
        except OSError:  # it does not exist
            return False

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not (event in _FILES or event in _FOLDERS or event in _OUTSIDE):
            return
        try:
            self._note(event, arguments)
        except Exception:  # an exception here would be one of the user's `open`
            self._reads.setdefault(f"{OUTSIDE}reads what cannot be named", set()).update(_readers(_caller()))

    def _note(self, event: str, arguments: tuple[Any, ...]) -> None:
        frame = _caller()
        if event in _OUTSIDE:
            read = f"{OUTSIDE}{_OUTSIDE[event]}"
        elif event == "ctypes.dlopen" and isinstance(arguments[0], str) and os.sep not in arguments[0]:
            read = f"{OUTSIDE}loads {arguments[0]} from wherever the system has it"
        elif (event in _FOLDERS and _looks_for_modules(frame)) or (event in (*_FOLDERS, "open") and _removes(frame)):
            return
        elif event == "open" and _is_relative(arguments[0], arguments[1]) and not _writes(arguments[1], arguments[2]):
            if _appends(arguments[1], arguments[2]):
                return
            read = f"{OUTSIDE}opens {os.fsdecode(arguments[0])}, perhaps in a folder that is open (dir_fd)"
        else:
            path = _path(_of_event(event, arguments))
            if path is None:
                return
            if event in _FOLDERS or (event == "open" and arguments[1] is None and os.path.isdir(path)):
                read = FOLDER + path
            else:
                read = FILE + path
                if event == "open" and _appends(arguments[1], arguments[2]):
                    return
                if event == "open" and _writes(arguments[1], arguments[2]):
                    if read not in self._reads:
                        self._written.setdefault(path, set()).update(_readers(frame))
                    return
                self._first.setdefault(os.path.realpath(path), time.time_ns())
        readers = set(_readers(frame))
        if not readers and _in_callback(frame):
            readers = {_ANY}
        if not readers and threading.current_thread() is not threading.main_thread():
            # As in `pool.map(np.load, paths)`, for whose results the main thread waits.
            readers = set(_readers(sys._current_frames().get(threading.main_thread().ident or 0)))
        if readers:
            if not read.startswith(OUTSIDE) and read not in self._stamps:
                self._stamps[read] = None  # to list a folder is an event too
                self._stamps[read] = _stamp(read)
            self._reads.setdefault(read, set()).update(readers)


READS = FileReads()
"""Of this process: there is one audit hook."""


def changed_since(reads: Iterable[str], moment: int) -> str | None:
    """A file among what was read that was changed later, in nanoseconds since the epoch; None where none was."""
    for read in reads:
        if read.startswith(FILE):
            with contextlib.suppress(OSError):  # it does not exist
                if os.stat(read.removeprefix(FILE)).st_ctime_ns > moment:
                    return read.removeprefix(FILE)
    return None


def state_of(read: str) -> str:
    """The digest of what was read, as it is now; of what does not exist, an empty text."""
    if read.startswith((FOLDER, MODULES)):
        folder = read.removeprefix(FOLDER).removeprefix(MODULES)
        try:
            names = sorted(name for name in os.listdir(folder) if name != "__pycache__")
        except OSError:  # it does not exist
            return ""
        if read.startswith(MODULES):
            packages = {name for name in names if name.isidentifier() and os.path.isdir(os.path.join(folder, name))}
            names = [name for name in names if name.endswith(_SUFFIXES) or name in packages]
        return hashlib.sha256(repr(names).encode()).hexdigest()
    try:
        with open(read.removeprefix(FILE), "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:  # it does not exist, or is a folder
        return ""


def _stamp(read: str) -> tuple[int, ...] | str | None:
    """What shows that a file or a folder is another one than before; None where it does not exist."""
    if read.startswith(FOLDER):
        return state_of(read) or None
    try:
        there = os.stat(read.removeprefix(FILE))
    except OSError:  # it does not exist
        return None
    return there.st_dev, there.st_ino, there.st_size, there.st_mtime_ns, there.st_ctime_ns


def _in_callback(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.endswith(_CALLBACKS):
            return True
        frame = frame.f_back
    return False


def _is_relative(opened: Any, mode: Any) -> bool:
    """Whether `os.open`, whose events have no mode, was given a path that is relative, perhaps to an open folder."""
    return mode is None and isinstance(opened, str | bytes | os.PathLike) and not os.path.isabs(os.fsdecode(opened))


def _looks_for_modules(frame: FrameType | None) -> bool:
    return frame is not None and frame.f_code.co_filename.startswith("<frozen importlib")


def _removes(frame: FrameType | None) -> bool:
    """Whether it is `shutil.rmtree` that lists folders, as at the end of every temporary one."""
    return frame is not None and frame.f_code.co_filename == shutil.__file__ and "rmtree" in frame.f_code.co_name


def _of_event(event: str, arguments: tuple[Any, ...]) -> Any:
    """What an event is about: a path, or the number of an open file."""
    opened = arguments[1 if event == "import" else 0]
    if event == "sqlite3.connect" and isinstance(opened, str) and opened.startswith("file:"):  # with uri=True
        return urllib.parse.unquote(urllib.parse.urlsplit(opened).path)
    if event in _FOLDERS and isinstance(opened, int):
        return os.readlink(f"/proc/self/fd/{opened}")
    return opened


def _path(opened: Any) -> str | None:
    """The absolute path of what is opened, the source for a compiled module; None where it need not be noted."""
    if not isinstance(opened, str | bytes | os.PathLike):
        return None  # the number of an open file
    path = os.path.abspath(os.fsdecode(opened))
    if path.endswith(".pyc"):
        with contextlib.suppress(ValueError):  # one without a source
            path = importlib.util.source_from_cache(path)
    of_the_system = path.startswith(_OF_THE_SYSTEM) and not path.startswith(_SHARED_MEMORY)
    return None if of_the_system or path.startswith(_caches()) or is_installed(path) else path


def _caches() -> tuple[str, ...]:
    """Folders of what this and other runs compute: samebits' own, and jax's compiled programs."""
    of_jax = getattr(getattr(sys.modules.get("jax"), "config", None), "jax_compilation_cache_dir", None)
    root = str(cache_root())
    return (*(os.path.join(root, name, "") for name in CACHES), *((os.path.join(str(of_jax), ""),) if of_jax else ()))


def _writes(mode: Any, flags: Any) -> bool:
    """Whether a file is opened to be written anew: what was in it before does not count."""
    if isinstance(mode, str):
        return mode.replace("b", "").replace("t", "") in ("w", "w+", "x", "x+")
    return isinstance(flags, int) and bool(flags & (os.O_TRUNC | os.O_EXCL))


def _appends(mode: Any, flags: Any) -> bool:
    """Whether a file is opened only to write more into it: nothing is read, and what was in it stays."""
    if isinstance(mode, str):
        return mode.replace("b", "").replace("t", "") == "a"
    return isinstance(flags, int) and bool(flags & os.O_WRONLY) and not _writes(mode, flags)


def _caller() -> FrameType | None:
    """The frame that caused an event, outside of this file."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    return frame


def _readers(frame: FrameType | None) -> Iterator[str]:
    """The source files on the stack, without installed ones."""
    while frame is not None:
        reader = _reader(frame.f_code.co_filename)
        if reader is not None:
            yield reader
        frame = frame.f_back


@functools.lru_cache(maxsize=65536)
def _reader(name: str) -> str | None:
    return None if name.startswith("<") or is_installed(name) else os.path.realpath(name)
