"""What code reads while it runs is known of the files that were on the stack."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import sys
import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax
import numpy as np
import pytest

from samebits.host.file_reads import CHANGED, FILE, FOLDER, LISTED, OUTSIDE, OWN, READS, state_of
from tests.host.reading import CODE, load_reader, reads


@pytest.fixture
def reader(tmp_path: Path) -> types.ModuleType:
    """A loaded file of a user's."""
    return load_reader(tmp_path)


@pytest.mark.parametrize(
    "how", ["plain", "by_path", "missing", "numbered", "database", "library", "imported", "by_uri"]
)
def test_a_file_that_is_opened(reader: types.ModuleType, tmp_path: Path, how: str) -> None:
    path = tmp_path / "data.py"
    if how != "missing":
        path.write_text("")
    getattr(reader, how)(path)
    logs = (f"{FILE}{path}-journal", f"{FILE}{path}-wal") if how in ("database", "by_uri") else ()
    assert reads(reader) == (f"{FILE}{path}", *logs)


def test_a_table_that_numpy_loads(reader: types.ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "table.npy"
    np.save(path, np.arange(3))
    reader.table(path)
    assert reads(reader) == (f"{FILE}{path}",)


def test_a_folder_that_is_listed(reader: types.ModuleType, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    reader.names(tmp_path / "data")
    assert reads(reader) == (f"{FOLDER}{tmp_path / 'data'}",)


def test_a_folder_that_is_opened_and_listed_by_its_number(reader: types.ModuleType, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    reader.numbers_of(tmp_path / "data")
    assert reads(reader) == (f"{FOLDER}{tmp_path / 'data'}",)


def test_a_file_of_an_open_folder_cannot_be_named(reader: types.ModuleType, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "table").write_text("1")
    reader.in_a_folder(tmp_path / "data" / "table")
    outside = f"{OUTSIDE}opens table, perhaps in a folder that is open (dir_fd)"
    assert set(reads(reader)) == {f"{FOLDER}{tmp_path / 'data'}", outside}


@pytest.mark.parametrize("how", ["removed", "touched"])
def test_what_is_removed_or_touched_is_no_read(how: str, reader: types.ModuleType, tmp_path: Path) -> None:
    getattr(reader, how)(tmp_path)
    assert reads(reader) == ()


def test_another_program(reader: types.ModuleType, tmp_path: Path) -> None:
    reader.program(tmp_path)
    assert f"{OUTSIDE}starts another program" in reads(reader)


def test_another_process(reader: types.ModuleType, tmp_path: Path) -> None:
    """By the event alone: a process with jax's threads may not survive a fork."""
    reader.forked(tmp_path)
    assert f"{OUTSIDE}starts another process" in reads(reader)


def test_a_thread_reads_for_what_started_it(reader: types.ModuleType, tmp_path: Path) -> None:
    """On its stack are NumPy and the pool alone."""
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
    assert reads(reader) == (f"{OWN}{tmp_path / 'data'}",)
    assert state_of(f"{OWN}{tmp_path / 'data'}") == state_of(f"{FILE}{tmp_path / 'data'}") != ""


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


def test_what_it_wrote_again_has_not_changed(reader: types.ModuleType, tmp_path: Path) -> None:
    """Nor for a run that is resumed, which asks for all reads of the process."""
    for _ in range(2):
        reader.retained(tmp_path / "own")
    (tmp_path / "own").write_text("longer")
    assert f"{FILE}{tmp_path / 'own'}" in READS.all()
    (tmp_path / "own").unlink()
    assert not [read for read in READS.all() if str(tmp_path / "own") in read]


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


@pytest.mark.parametrize("change", ["edited", "removed", "made", "linked", "replaced"])
def test_what_changes_after_it_was_read_cannot_be_compared(
    reader: types.ModuleType, tmp_path: Path, change: str
) -> None:
    """Whatever the times of the file that is there now: the result is of the one that was there then."""
    data, older = tmp_path / "data", tmp_path / "older"
    older.write_text("2")
    if change == "linked":
        (tmp_path / "first").write_text("1")
        data.symlink_to(tmp_path / "first")
    elif change != "made":
        data.write_text("1")
    with contextlib.suppress(FileNotFoundError):
        reader.plain(data)
    assert reads(reader) == (f"{FILE}{data}",)
    if change == "edited":
        data.write_text("3")
    elif change == "removed":
        data.unlink()
    elif change == "replaced":
        older.rename(data)
    elif change == "made":
        os.link(older, data)
    else:
        data.unlink()
        data.symlink_to(older)
    assert reads(reader) == (f"{OUTSIDE}reads {data}, which changed meanwhile",)


def test_a_folder_that_changes_after_it_was_listed(reader: types.ModuleType, tmp_path: Path) -> None:
    reader.names(tmp_path)
    (tmp_path / "more.npy").touch()
    assert f"{FOLDER}{tmp_path}" not in reads(reader)
    assert any(read.startswith(OUTSIDE) and "changed meanwhile" in read for read in reads(reader))


def test_a_library_by_its_bare_name(reader: types.ModuleType) -> None:
    """The system looks for it in its own folders and in those of LD_LIBRARY_PATH."""
    reader.library("libm.so.6")
    assert reads(reader) == (f"{OUTSIDE}loads libm.so.6 from wherever the system has it",)


def test_an_extension_is_read_where_it_is_imported(reader: types.ModuleType, tmp_path: Path) -> None:
    """Python reports no `open` of it; this one cannot be loaded, which is after the report."""
    built = tmp_path / "kernel_read_by_a_test.so"
    built.write_bytes(b"no library")
    with pytest.raises(ImportError):
        reader.imported(built)
    assert f"{FILE}{built}" in reads(reader)
    assert f"{FILE}{built}" in READS.of({"/elsewhere.py"}, modules=True)


def test_jaxs_cache_hides_its_own_files_alone(reader: types.ModuleType, tmp_path: Path) -> None:
    before = jax.config.values["jax_compilation_cache_dir"]
    jax.config.update("jax_compilation_cache_dir", str(tmp_path / "jax"))
    try:
        for name in (
            "jax/jit_f-12ab-cache",
            "jax/jit_f-12ab-atime",
            "jax/data",
            "jax/inner/x-cache",
            "jax_tables/data",
        ):
            path = tmp_path / name
            path.parent.mkdir(exist_ok=True)
            path.write_text("1")
            reader.plain(path)
    finally:
        jax.config.update("jax_compilation_cache_dir", before)
    assert reads(reader) == tuple(
        f"{FILE}{tmp_path / name}" for name in ("jax/data", "jax/inner/x-cache", "jax_tables/data")
    )


def test_a_pipe_cannot_be_compared(reader: types.ModuleType, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        writer = pool.submit(pipe.write_text, "1")
        reader.plain(pipe)
        writer.result()
    assert reads(reader) == (f"{OUTSIDE}reads {pipe}, which is a pipe",)
    assert state_of(f"{FILE}{pipe}") == "a pipe"


def test_a_class_that_a_pickle_names_is_read(reader: types.ModuleType, tmp_path: Path) -> None:
    """No import shows it where its module is loaded already."""
    module = tmp_path / "pickled_of_a_test.py"
    module.write_text("def scale(): return 2\n")
    sys.path.insert(0, str(tmp_path))
    try:
        importlib.import_module("pickled_of_a_test")
    finally:
        sys.path.remove(str(tmp_path))
    (tmp_path / "table.pickle").write_bytes(b"cpickled_of_a_test\nscale\n.")
    reader.pickled(tmp_path / "table.pickle")
    assert reads(reader) == (f"{FILE}{module}", f"{FILE}{tmp_path / 'table.pickle'}")


def test_folders_of_modules(reader: types.ModuleType, tmp_path: Path) -> None:
    """Those that code adds to the path, for code that computes its imports."""
    reader.beside(tmp_path / "plugins")
    assert reads(reader) == ()
    listed = READS.of({"/elsewhere.py"}, modules=True)
    assert f"{LISTED}{tmp_path / 'plugins'}" in listed
    (tmp_path / "plugins" / "extra_of_a_test.py").write_text("")
    assert READS.listed(str(tmp_path / "plugins")).endswith(f"plugins, which {CHANGED}")
    assert READS.listed("/elsewhere") == f"{OUTSIDE}looks for modules in /elsewhere, which is known only since it ran"


def test_a_folder_of_its_own_that_is_gone_is_no_read(reader: types.ModuleType, tmp_path: Path) -> None:
    reader.listed_and_removed(tmp_path / "own")
    assert reads(reader) == ()
