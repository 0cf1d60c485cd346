"""A file of a user's that reads in every way, and what is known of it."""

import contextlib
import importlib.util
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from samebits.host.file_reads import READS, loaded_files

CODE = """
import ctypes, glob, importlib.metadata, json, os, sqlite3, subprocess
from pathlib import Path
import numpy as np

def plain(path):
    with open(path) as file:
        return file.read()

def by_path(path):
    return Path(path).read_bytes()

def table(path):
    return np.load(path)

def missing(path):
    try:
        return open(path)
    except FileNotFoundError:
        return None

def names(path):
    return glob.glob(str(path) + "/*.npy")

def versions(path):
    return [each.version for each in importlib.metadata.distributions(path=[str(path)])]

def database(path):
    return sqlite3.connect(path).execute("select 1").fetchall()

def library(path):
    try:
        ctypes.CDLL(str(path))
    except OSError:
        pass

def program(path):
    subprocess.run(["true"])

def numbered(path):
    os.close(os.open(path, os.O_RDONLY))

def back(path):
    Path(path).with_suffix(".out").write_text("x")
    text = Path(path).with_suffix(".out").read_text()
    Path(path).with_suffix(".out").unlink()
    return text

def retained(path):
    Path(path).write_text("x")
    return Path(path).read_text()

def appended(path):
    open(path, "a").close()
    return Path(path).read_text()

def logged(path):
    with open(path, "a") as file:
        file.write("x")

def by_uri(path):
    return sqlite3.connect(f"{Path(path).as_uri()}?mode=rwc", uri=True).execute("select 1").fetchall()

def in_a_folder(path):
    folder = os.open(Path(path).parent, os.O_RDONLY)
    os.close(os.open(Path(path).name, os.O_RDONLY, dir_fd=folder))
    os.close(folder)

def touched(path):
    here = os.getcwd()
    os.chdir(path)
    Path("seen.flag").touch()
    os.chdir(here)

def numbers_of(path):
    folder = os.open(path, os.O_RDONLY)
    names = os.listdir(folder)
    os.close(folder)
    return names

def removed(path):
    import tempfile
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "inner" / "most").mkdir(parents=True)

def in_threads(path):
    from concurrent.futures import ThreadPoolExecutor
    with ThreadPoolExecutor() as pool:
        return list(pool.map(np.load, [path]))

def forked(path):
    import sys
    sys.audit("os.fork")

def named(path):
    import socket
    return socket.gethostname()

def both(path):
    text = Path(path).read_text()
    Path(path).write_text(text)
"""


def load_reader(folder: Path) -> types.ModuleType:
    """The file, written into a folder and loaded."""
    READS.look()
    path = folder / "reader.py"
    path.write_text(CODE)
    spec = importlib.util.spec_from_file_location("reader_of_a_test", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@contextlib.contextmanager
def unnoticed() -> Iterator[None]:
    """Inside, what this process does to files is done by another one."""
    READS._noting.now = True
    try:
        yield
    finally:
        READS._noting.now = False


def reads_of(patch: pytest.MonkeyPatch) -> Callable[[], tuple[str, ...]]:
    """Tells what is read from now on, as of a command that begins now, without modules of users."""
    READS.look()
    time.sleep(0.02)  # the clock of a file system moves in steps
    patch.setattr(READS, "began", time.time_ns())
    time.sleep(0.02)
    for name in ("_reads", "_written"):
        patch.setattr(READS, name, type(vars(READS)[name])())

    def reads() -> tuple[str, ...]:
        modules = loaded_files()
        return tuple(read for read in READS.all() if not any(file in read for file in modules))

    return reads
