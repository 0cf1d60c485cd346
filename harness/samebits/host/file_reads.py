"""What the user's code reads while it is loaded, traced and run: data files, folders, modules with computed names.

Python reports every file that it opens to an audit hook. A read counts for the source files that were on the stack
then, so that it is known of a pair also where another pair, loaded before, had the same helper read the file. In a
thread without any, as of a pool, it counts for those on the stack of the main thread. What is read below Python, by a
library in C, is not seen.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import hashlib
import os
import platform
import stat
import sys
import threading
import time
from collections.abc import Collection, Iterable
from typing import Any

from samebits.host.read_events import (
    FOLDERS,
    appends,
    caller,
    is_for_keys,
    is_in_callback,
    is_relative,
    looks_for_modules,
    opened_by,
    path_of,
    readers_on,
    removes,
    writes,
)
from samebits.host.source_closure import module_folders

FILE, OWN, FOLDER, MODULES, LISTED = "file:", "own:", "folder:", "modules:", "listed:"
VARIABLE, HOST, OUTSIDE = "variable:", "host:", "outside:"
"""How a read begins: the content of a file (`OWN` where the code that reads it wrote it before), the names in a folder,
those of its modules (`LISTED` where this process knows that they are the same since it began to look), an environment
variable, the name of the machine, or what cannot be compared."""

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
}

_FILES = ("open", "ctypes.dlopen", "sqlite3.connect", "import", "pickle.find_class", "os.mkdir")
_SUFFIXES = (".py", ".so", ".pyd", ".pyc")
_DATABASE = ("", "-wal", "-journal")
"""What the files of an SQLite database end with."""

_ANY = "*"
"""The reader of what a callback of jax reads without a frame of the user's, as where it is `np.load` itself."""


class FileReads:
    """What was read in this process since the first call of `look`; a hook of Python's cannot be taken away again."""

    def __init__(self) -> None:
        self._imported = time.time_ns()
        self._elsewhere: set[str] = set()
        self._before: frozenset[str] | None = None
        self._reads: dict[str, set[str]] = {}
        self._of_reader: dict[str, set[str]] = {}
        self._of_imports: set[str] = set()
        self._first: dict[str, int] = {}
        self._written: dict[str, set[str]] = {}
        self._stamps: dict[str, tuple[int, ...] | str | None] = {}
        self._noting = threading.local()
        self._events = frozenset((*_FILES, *FOLDERS, *_OUTSIDE))

    def look(self) -> None:
        """Note reads from now on."""
        if self._before is None:
            for folder in module_folders(()):
                self._stamps[MODULES + folder] = _stamp(MODULES + folder)
            files = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
            self._before = frozenset(os.path.realpath(file) for file in files if file)
            sys.addaudithook(self._audit)
            atexit.register(self._end)

    def add(self, reads: Iterable[str]) -> None:
        """Count what another process read for this one, as its `all` told."""
        self._elsewhere.update(reads)

    def of(self, sources: Collection[str], *, modules: bool = False) -> tuple[str, ...]:
        """What was read while one of these files was on the stack, without the files themselves.

        Args:
            sources: absolute paths.
            modules: also every module that any file imported, and the folders in which it was looked for, for sources
                that compute the names of their imports.
        """
        reads = set()
        wanted = set().union(*(self._of_reader.get(reader, ()) for reader in (*sources, _ANY)))
        for read in wanted | self._of_imports if modules else wanted:
            if read.startswith(MODULES):
                reads |= {self.listed(read.removeprefix(MODULES))} if modules else set()
                continue
            path = read.removeprefix(FILE).removeprefix(FOLDER)
            # What a file reads back that it wrote itself is computed from what else it depends on; what it leaves
            # behind may be read by the next run without being written again.
            own = not self._written.get(path, set()).isdisjoint(sources)
            if not (own and not os.path.exists(path)) and _real(path) not in sources:
                reads.add(read.replace(FILE, OWN, 1) if own else self._said(read))
        return tuple(sorted(reads))

    def _add(self, read: str, readers: Iterable[str]) -> None:
        """Note who read it."""
        readers = set(readers)
        self._reads.setdefault(read, set()).update(readers)
        for reader in readers:
            self._of_reader.setdefault(reader, set()).add(read)
        if read.startswith(MODULES) or read.endswith(_SUFFIXES):
            self._of_imports.add(read)

    def _said(self, read: str) -> str:
        """A read, or that it cannot be compared since another file or folder is there now."""
        path = read.removeprefix(FILE)
        moved = read in self._stamps and self._stamps[read] != _stamp(read)
        return f"{OUTSIDE}reads {path.removeprefix(FOLDER)}, which {CHANGED}" if moved or self.is_stale(path) else read

    def is_listed(self, folder: str) -> bool:
        """Whether this process knows which modules a folder had before code looked for one in it."""
        return MODULES + folder in self._stamps

    def listed(self, folder: str) -> str:
        """As a read, which modules a folder has; or that it cannot be compared, as it may have had others before."""
        read = MODULES + folder
        if not self.is_listed(folder):
            return f"{OUTSIDE}looks for modules in {folder}, which is known only since it ran"
        same = self._stamps[read] == _stamp(read)
        return LISTED + folder if same else f"{OUTSIDE}looks for modules in {folder}, which {CHANGED}"

    def all(self) -> tuple[str, ...]:
        """What any file of users has read so far, without what it wrote itself and removed."""
        written = {f"{kind}{path}": os.path.exists(path) for path in list(self._written) for kind in (FILE, FOLDER)}
        reads = [read for read in list(self._reads) if written.get(read, True) and not read.startswith(MODULES)]
        return tuple(sorted({*self._elsewhere, *(read if read in written else self._said(read) for read in reads)}))

    def is_stale(self, path: str) -> bool:
        """Whether a file was changed after this process first opened it, and may have retained what was in it."""
        real = _real(path)
        since = self._imported if real in (self._before or ()) else self._first.get(real)
        try:
            return since is not None and os.stat(path).st_ctime_ns > since
        except OSError:  # it does not exist
            return False

    def _end(self) -> None:
        """Note nothing while Python ends: this module's names are gone then, and files are opened still."""
        self._events = frozenset()

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event not in self._events or getattr(self._noting, "now", False):
            return
        self._noting.now = True  # to list a folder is an event too
        try:
            self._note(event, arguments)
        except Exception:  # an exception here would be one of the user's `open`
            self._add(f"{OUTSIDE}reads what cannot be named", readers_on(caller(__file__)))
        finally:
            self._noting.now = False

    def _note(self, event: str, arguments: tuple[Any, ...]) -> None:
        frame = caller(__file__)
        if is_for_keys(frame):
            if event == "open":
                self._reads_of(event, arguments, frame)  # for when a file was first opened, whoever did
            return
        for read in self._reads_of(event, arguments, frame):
            readers = set(readers_on(frame))
            if not readers and is_in_callback(frame):
                readers = {_ANY}
            if not readers and threading.current_thread() is not threading.main_thread():
                # As in `pool.map(np.load, paths)`, for whose results the main thread waits.
                main = sys._current_frames().get(threading.main_thread().ident or 0)
                readers = set(readers_on(main))
                if not readers and event == "open" and os.path.isfile(read.removeprefix(FILE)):
                    readers = {_ANY}  # of a pool that reads ahead, while the main thread is elsewhere
            if readers or read.startswith(MODULES):
                if not read.startswith(OUTSIDE) and read not in self._stamps:
                    self._stamps[read] = _stamp(read)
                self._add(read, readers)

    def _reads_of(self, event: str, arguments: tuple[Any, ...], frame: Any) -> list[str]:
        """What an event reads; nothing where it writes, or reads what need not be noted."""
        if event in _OUTSIDE:
            return [f"{OUTSIDE}{_OUTSIDE[event]}"]
        if event == "os.mkdir":
            self._written.setdefault(os.path.abspath(os.fsdecode(arguments[0])), set()).update(readers_on(frame))
            return []
        if event == "ctypes.dlopen" and isinstance(arguments[0], str) and os.sep not in arguments[0]:
            return [f"{OUTSIDE}loads {arguments[0]} from wherever the system has it"]
        if event in (*FOLDERS, "open") and removes(frame):
            return []
        mode, flags = (arguments[1], arguments[2]) if event == "open" else ("r", 0)
        if event == "open" and appends(mode, flags):
            return []
        if event == "open" and is_relative(arguments[0], mode) and not writes(mode, flags):
            return [f"{OUTSIDE}opens {os.fsdecode(arguments[0])}, perhaps in a folder that is open (dir_fd)"]
        path = path_of(opened_by(event, arguments))
        if path is None:
            return []
        if event in FOLDERS:
            return [(MODULES if looks_for_modules(frame) else FOLDER) + path]
        if mode is None and os.path.isdir(path):
            return [FOLDER + path]
        if writes(mode, flags):
            if FILE + path not in self._reads:
                self._written.setdefault(path, set()).update(readers_on(frame))
            return []
        return self._file(event, path)

    def _file(self, event: str, path: str) -> list[str]:
        """The reads of a file that is opened."""
        self._first.setdefault(os.path.realpath(path), time.time_ns())
        if event == "sqlite3.connect":
            return [FILE + path + end for end in _DATABASE]
        folder = MODULES + os.path.dirname(path)
        if path.endswith(_SUFFIXES) and folder not in self._stamps:
            self._stamps[folder] = _stamp(folder)  # before its code looks for modules beside it
        if FILE + path not in self._stamps and _is_pipe(path):
            return [f"{OUTSIDE}reads {path}, which is a pipe"]
        return [FILE + path]


READS = FileReads()
"""Of this process: there is one audit hook."""


def changed_since(reads: Iterable[str], moment: int) -> str | None:
    """A file among what was read that was changed later, in nanoseconds since the epoch; None where none was."""
    for read in reads:
        if read.startswith(FILE):
            path = read.removeprefix(FILE)
            with contextlib.suppress(OSError):  # it does not exist
                if os.stat(path).st_ctime_ns > moment and not _is_empty_log(path):
                    return path
    return None


def state_of(read: str) -> str:
    """The digest of what was read, as it is now; of what does not exist, an empty text."""
    if read.startswith((FOLDER, MODULES, LISTED)):
        folder = read.removeprefix(FOLDER).removeprefix(MODULES).removeprefix(LISTED)
        try:
            names = sorted(name for name in os.listdir(folder) if name != "__pycache__")
        except OSError:  # it does not exist
            return ""
        if not read.startswith(FOLDER):
            packages = {name for name in names if name.isidentifier() and os.path.isdir(os.path.join(folder, name))}
            names = [name for name in names if name.endswith(_SUFFIXES) or name in packages]
        return hashlib.sha256(repr(names).encode()).hexdigest()
    if read == HOST:
        return hashlib.sha256(platform.node().encode()).hexdigest()
    path = read.removeprefix(FILE).removeprefix(OWN)
    try:
        if _is_pipe(path):  # to open it would wait for who writes
            return "a pipe"
        if _is_empty_log(path):
            return ""
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:  # it does not exist, or is a folder
        return ""


def _is_empty_log(path: str) -> bool:
    """Whether it is the log of an SQLite database without an entry, which every reader makes and removes."""
    return path.endswith(_DATABASE[1:]) and os.path.getsize(path) == 0


def _is_pipe(path: str) -> bool:
    try:
        return stat.S_ISFIFO(os.stat(path).st_mode)
    except OSError:  # it does not exist
        return False


@functools.lru_cache(maxsize=65536)
def _real(path: str) -> str:
    return os.path.realpath(path)


def _stamp(read: str) -> tuple[int, ...] | str | None:
    """What shows that a file or a folder is another one than before; None where it does not exist."""
    if read.startswith((FOLDER, MODULES)):
        return state_of(read) or None
    try:
        there = os.stat(read.removeprefix(FILE))
        if _is_empty_log(read.removeprefix(FILE)):
            return None
    except OSError:  # it does not exist
        return None
    return there.st_dev, there.st_ino, there.st_size, there.st_mtime_ns, there.st_ctime_ns
