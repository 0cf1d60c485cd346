"""What code reads while it runs is known of the files that were on the stack."""

from __future__ import annotations

import importlib.util
import os
import types
from pathlib import Path

import pytest

from samebits.host.file_reads import FILE, FOLDER, OUTSIDE, READS, changed_since, state_of

CODE = """
import ctypes, glob, json, os, sqlite3, subprocess
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

def imported(path):
    import importlib.util
    spec = importlib.util.spec_from_file_location("module_read_by_a_test", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

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

def in_threads(path):
    from concurrent.futures import ThreadPoolExecutor
    with ThreadPoolExecutor() as pool:
        return list(pool.map(np.load, [path]))

def forked(path):
    import sys
    sys.audit("os.fork")

def both(path):
    text = Path(path).read_text()
    Path(path).write_text(text)
"""


@pytest.fixture
def reader(tmp_path: Path) -> types.ModuleType:
    """A loaded file of a user's."""
    READS.look()
    path = tmp_path / "reader.py"
    path.write_text(CODE)
    spec = importlib.util.spec_from_file_location("reader_of_a_test", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def reads(reader: types.ModuleType) -> tuple[str, ...]:
    return READS.of({str(reader.__file__)})


@pytest.mark.parametrize("how", ["plain", "by_path", "missing", "numbered", "database", "library", "imported"])
def test_a_file_that_is_opened(reader: types.ModuleType, tmp_path: Path, how: str) -> None:
    path = tmp_path / "data.py"
    if how != "missing":
        path.write_text("")
    getattr(reader, how)(path)
    assert reads(reader) == (f"{FILE}{path}",)


def test_a_table_that_numpy_loads(reader: types.ModuleType, tmp_path: Path) -> None:
    import numpy as np

    path = tmp_path / "table.npy"
    np.save(path, np.arange(3))
    reader.table(path)
    assert reads(reader) == (f"{FILE}{path}",)


def test_a_folder_that_is_listed(reader: types.ModuleType, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    reader.names(tmp_path / "data")
    assert reads(reader) == (f"{FOLDER}{tmp_path / 'data'}",)


def test_another_program(reader: types.ModuleType, tmp_path: Path) -> None:
    reader.program(tmp_path)
    assert f"{OUTSIDE}starts another program" in reads(reader)


def test_another_process(reader: types.ModuleType, tmp_path: Path) -> None:
    """By the event alone: a process with jax's threads may not survive a fork."""
    reader.forked(tmp_path)
    assert f"{OUTSIDE}starts another process" in reads(reader)


def test_a_thread_reads_for_what_started_it(reader: types.ModuleType, tmp_path: Path) -> None:
    """On its stack are NumPy and the pool alone."""
    import numpy as np

    path = tmp_path / "table.npy"
    np.save(path, np.arange(3))
    reader.in_threads(path)
    assert reads(reader) == (f"{FILE}{path}",)


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="there is no shared memory as files")
def test_a_file_in_shared_memory_is_one(reader: types.ModuleType) -> None:
    path = Path(f"/dev/shm/samebits-test-{os.getpid()}")
    try:
        path.write_text("a")
        reader.plain(path)
        reader.plain("/dev/null")
        assert reads(reader) == (f"{FILE}{path}",)
    finally:
        path.unlink()


def test_what_is_left_behind_is_read_by_the_next_run(reader: types.ModuleType, tmp_path: Path) -> None:
    reader.retained(tmp_path / "data")
    assert reads(reader) == (f"{FILE}{tmp_path / 'data'}",)


def test_to_append_writes_nothing_anew(reader: types.ModuleType, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a")
    reader.appended(tmp_path / "data")
    reader.logged(tmp_path / "log")
    assert reads(reader) == (f"{FILE}{tmp_path / 'data'}",)


def test_what_it_wrote_itself_is_no_read(reader: types.ModuleType, tmp_path: Path) -> None:
    reader.back(tmp_path / "data")
    assert reads(reader) == ()


def test_what_it_read_and_then_wrote_is_one(reader: types.ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "data.txt"
    path.write_text("a")
    reader.both(path)
    assert reads(reader) == (f"{OUTSIDE}reads {path}, which changed meanwhile",)


def test_reads_of_another_file_are_not_its_own(reader: types.ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "data.txt"
    path.write_text("a")
    path.read_text()
    assert reads(reader) == ()


def test_a_read_counts_for_every_file_on_the_stack(reader: types.ModuleType, tmp_path: Path) -> None:
    """Where a helper reads a file once for two pairs, both depend on it."""
    path = tmp_path / "data.txt"
    path.write_text("a")
    caller = tmp_path / "caller.py"
    caller.write_text("def call(reader, path):\n    return reader.plain(path)\n")
    spec = importlib.util.spec_from_file_location("caller_of_a_test", caller)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.call(reader, path)
    for file in (caller, reader.__file__):
        assert f"{FILE}{path}" in READS.of({str(file)})


def test_a_path_relative_to_the_folder_of_then(
    reader: types.ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data.txt").write_text("a")
    monkeypatch.chdir(tmp_path)
    reader.plain("data.txt")
    monkeypatch.chdir("/")
    assert reads(reader) == (f"{FILE}{tmp_path / 'data.txt'}",)


def test_a_source_that_changed_after_it_was_loaded(reader: types.ModuleType) -> None:
    path = str(reader.__file__)
    assert not READS.is_stale(path)
    Path(path).write_text(CODE + "\n")
    assert READS.is_stale(path)
    assert not READS.is_stale(str(Path(path).with_name("never_opened.py")))


def test_states_differ_where_content_does(tmp_path: Path) -> None:
    path, folder = tmp_path / "data.txt", tmp_path / "folder"
    states = [state_of(f"{FILE}{path}"), state_of(f"{FOLDER}{folder}")]
    assert states == ["", ""]
    path.write_text("a")
    folder.mkdir()
    states = [state_of(f"{FILE}{path}"), state_of(f"{FOLDER}{folder}")]
    path.write_text("b")
    (folder / "x").write_text("")
    assert all(a != b for a, b in zip(states, [state_of(f"{FILE}{path}"), state_of(f"{FOLDER}{folder}")], strict=True))
    state = state_of(f"{FOLDER}{folder}")
    (folder / "__pycache__").mkdir()
    assert state_of(f"{FOLDER}{folder}") == state


def test_files_that_changed_since_a_moment(tmp_path: Path) -> None:
    path = tmp_path / "data.txt"
    path.write_text("a")
    changed = os.stat(path).st_ctime_ns
    assert changed_since([f"{FILE}{path}"], changed) is None
    assert changed_since([f"{FILE}{tmp_path / 'missing'}", f"{FILE}{path}"], changed - 1) == str(path)
