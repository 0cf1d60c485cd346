"""What users' code reads while it runs is known, and what cannot be compared."""

import contextlib
import os
import subprocess
import sys
import types
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax
import numpy as np
import pytest

from samebits.host.file_reads import FILE, FOLDER, MEANWHILE, OUTSIDE, READS, _kind, path_of, state_of
from samebits.host.git import author
from samebits.host.installed import PACKAGE, own_digest
from samebits.host.loading import load_file
from tests.host.reading import load_reader, reads_of, unnoticed

Reads = Callable[[], tuple[str, ...]]


@pytest.fixture
def reader(tmp_path: Path) -> types.ModuleType:
    """A loaded file of a user's."""
    return load_reader(tmp_path)


@pytest.fixture
def reads(reader: types.ModuleType, monkeypatch: pytest.MonkeyPatch) -> Reads:
    """Tells what was read since the file was loaded."""
    return reads_of(monkeypatch)


@pytest.mark.parametrize("how", ["plain", "by_path", "missing", "numbered", "library"])
def test_a_file_that_is_opened(reader: types.ModuleType, reads: Reads, tmp_path: Path, how: str) -> None:
    path = tmp_path / "data.py"
    if how != "missing":
        path.write_text("")
    getattr(reader, how)(path)
    assert reads() == (f"{FILE}{path}",)


def test_a_table_that_numpy_loads(reader: types.ModuleType, reads: Reads, tmp_path: Path) -> None:
    path = tmp_path / "table.npy"
    np.save(path, np.arange(3))
    reader.table(path)
    assert reads() == (f"{FILE}{path}",)


def test_a_folder_that_is_listed(reader: types.ModuleType, reads: Reads, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    reader.names(tmp_path / "data")
    assert reads() == (f"{FOLDER}{tmp_path / 'data'}",)


def test_a_look_for_distributions_reads_their_files(reader: types.ModuleType, reads: Reads, tmp_path: Path) -> None:
    """Jax looks for plugins on all of Python's path: a file that comes to lie there is no reason to run again."""
    metadata = tmp_path / "path" / "a_test-1.dist-info" / "METADATA"
    metadata.parent.mkdir(parents=True)
    metadata.write_text("Version: 1\n")
    assert reader.versions(metadata.parents[1]) == ["1"]
    assert reads() == (f"{FILE}{metadata}",)


def test_a_folder_that_is_opened_and_listed_by_its_number(
    reader: types.ModuleType, reads: Reads, tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()
    reader.numbers_of(tmp_path / "data")
    assert f"{OUTSIDE}lists a folder that is open" in reads()


def test_a_file_of_an_open_folder_cannot_be_named(reader: types.ModuleType, reads: Reads, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "table").write_text("1")
    reader.in_a_folder(tmp_path / "data" / "table")
    outside = f"{OUTSIDE}opens table, perhaps in a folder that is open (dir_fd)"
    assert outside in reads()


@pytest.mark.parametrize("how", ["removed", "touched"])
def test_what_is_removed_or_touched_is_no_read(
    how: str, reader: types.ModuleType, reads: Reads, tmp_path: Path
) -> None:
    getattr(reader, how)(tmp_path)
    assert reads() == ()


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("program", "starts another program"),
        ("forked", "starts another process"),  # by the event alone: a process with jax's threads may not survive a fork
        ("named", "asks for the name of the machine"),
        ("database", "opens a database"),  # its log may have what it has not
        ("by_uri", "opens a database"),
    ],
)
def test_what_has_no_digest(reader: types.ModuleType, reads: Reads, tmp_path: Path, how: str, words: str) -> None:
    getattr(reader, how)(tmp_path / "data.db")
    assert f"{OUTSIDE}{words}" in reads()


def test_a_thread_reads_for_what_started_it(reader: types.ModuleType, reads: Reads, tmp_path: Path) -> None:
    """On its stack are NumPy and the pool alone."""
    path = tmp_path / "table.npy"
    np.save(path, np.arange(3))
    reader.in_threads(path)
    assert reads() == (f"{FILE}{path}",)


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="there is no shared memory as files")
def test_a_file_in_shared_memory_is_one(reader: types.ModuleType, reads: Reads) -> None:
    path = Path(f"/dev/shm/samebits-test-{os.getpid()}")
    try:
        path.write_text("a")
        reader.plain(path)
        reader.plain("/dev/null")
        assert reads() == (f"{FILE}{path}",)
    finally:
        path.unlink()


def test_what_is_left_behind_is_read_by_the_next_run(reader: types.ModuleType, reads: Reads, tmp_path: Path) -> None:
    reader.retained(tmp_path / "data")
    assert reads() == (f"{FILE}{tmp_path / 'data'}",)
    assert state_of(f"{FILE}{tmp_path / 'data'}") != ""


def test_to_append_writes_nothing_anew(reader: types.ModuleType, reads: Reads, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a")
    reader.appended(tmp_path / "data")
    reader.logged(tmp_path / "log")
    assert reads() == (f"{FILE}{tmp_path / 'data'}",)


def test_what_it_wrote_itself_is_no_read(reader: types.ModuleType, reads: Reads, tmp_path: Path) -> None:
    reader.back(tmp_path / "data")
    assert reads() == ()


def test_loaded_modules_are_read(reader: types.ModuleType) -> None:
    sys.modules["reader_of_a_test"] = reader
    try:
        assert f"{FILE}{reader.__file__}" in READS.all()
    finally:
        del sys.modules["reader_of_a_test"]


def test_a_path_relative_to_the_folder_of_then(
    reader: types.ModuleType, reads: Reads, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data.txt").write_text("a")
    monkeypatch.chdir(tmp_path)
    reader.plain("data.txt")
    monkeypatch.chdir("/")
    assert reads() == (f"{FILE}{tmp_path / 'data.txt'}",)


@pytest.mark.parametrize("change", ["edited", "removed", "made", "linked", "replaced", "listed"])
def test_what_changes_after_it_was_read(
    reader: types.ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, change: str
) -> None:
    """Whatever the times of the file that is there now: the result is of the one that was there then."""
    data, older = tmp_path / "data", tmp_path / "older"
    older.write_text("2")
    if change == "linked":
        (tmp_path / "first").write_text("1")
        data.symlink_to(tmp_path / "first")
    elif change == "listed":
        data.mkdir()
    elif change != "made":
        data.write_text("1")
    reads = reads_of(monkeypatch)
    with contextlib.suppress(FileNotFoundError):
        reader.names(data) if change == "listed" else reader.plain(data)
    assert (
        reads() == (f"{FOLDER if change == 'listed' else FILE}{data}",) and READS.changed(map(path_of, reads())) is None
    )
    with unnoticed():
        if change == "edited":
            data.write_text("3")
        elif change == "replaced":
            older.rename(data)
        elif change == "made":
            os.link(older, data)
        elif change == "listed":
            (data / "more").touch()
        else:
            data.unlink()
        if change == "linked":
            data.symlink_to(older)
    if change == "removed":
        assert reads() == (f"{OUTSIDE}reads {data}, which {MEANWHILE}",)
    else:
        assert READS.changed(map(path_of, reads())) == str(data)


def test_a_library_by_its_bare_name(reader: types.ModuleType, reads: Reads) -> None:
    """The system looks for it in its own folders and in those of LD_LIBRARY_PATH."""
    reader.library("libm.so.6")
    assert reads() == (f"{OUTSIDE}loads libm.so.6 from wherever the system has it",)


def test_jaxs_cache_counts_for_nothing(reader: types.ModuleType, reads: Reads, tmp_path: Path) -> None:
    before = jax.config.values["jax_compilation_cache_dir"]
    jax.config.update("jax_compilation_cache_dir", str(tmp_path / "jax"))
    try:
        for name in ("jax/jit_f-12ab-cache", "jax_tables/data"):
            path = tmp_path / name
            path.parent.mkdir(exist_ok=True)
            path.write_text("1")
            reader.plain(path)
    finally:
        jax.config.update("jax_compilation_cache_dir", before)
    assert reads() == (f"{FILE}{tmp_path / 'jax_tables/data'}",)


def test_a_pipe_cannot_be_compared(reader: types.ModuleType, reads: Reads, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        writer = pool.submit(pipe.write_text, "1")
        reader.plain(pipe)
        writer.result()
    assert reads() == (f"{OUTSIDE}reads {pipe}, which is not a regular file",)


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


def _of(folder: Path) -> set[str]:
    """The names of the files of a folder that count as read in this process."""
    reads = [Path(read.partition(":")[2]) for read in READS.all() if not read.startswith(OUTSIDE)]
    return {path.name for path in reads if path.parent == folder}


@pytest.mark.parametrize("in_thread", [False, True])
def test_what_samebits_digests_counts_for_nobody(tmp_path: Path, in_thread: bool) -> None:
    READS.look()
    (tmp_path / "data.txt").write_text("1")
    with ThreadPoolExecutor(1) as pool:
        digest = pool.submit(own_digest, tmp_path).result() if in_thread else own_digest(tmp_path)
    assert digest and _of(tmp_path) == set()


def test_what_the_test_reads_itself_counts(tmp_path: Path) -> None:
    READS.look()
    path = tmp_path / "data.txt"
    path.write_text("1")
    own_digest(tmp_path)
    assert path.read_text() == "1" and _of(tmp_path) == {"data.txt"}


def test_what_a_module_reads_that_samebits_loads_counts(tmp_path: Path) -> None:
    """The module too: it is Python's own import that opens it."""
    READS.look()
    (tmp_path / "data.txt").write_text("1")
    code = f"from pathlib import Path\nFACTOR = float(Path({str(tmp_path / 'data.txt')!r}).read_text())\n"
    (tmp_path / "loaded.py").write_text(code)
    assert load_file(tmp_path / "loaded.py").FACTOR == 1.0
    assert _of(tmp_path) == {"data.txt", "loaded.py"}


def test_git_that_samebits_starts_is_no_other_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    READS.look()
    monkeypatch.setattr(READS, "_reads", {})
    author(tmp_path)
    assert not any(read.startswith(OUTSIDE) and "starts" in read for read in READS._reads)


def test_a_repository_that_is_reached_by_a_link_is_the_same(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(PACKAGE)
    assert _kind(str(tmp_path / "link" / "host" / "git.py")) is False
    assert _kind(str(tmp_path / "link" / "programs" / "binding.py")) is True


@pytest.mark.parametrize(
    ("file", "is_users"),
    [
        (own_digest.__code__.co_filename, False),
        (Path.open.__code__.co_filename, None),
        ("<frozen posixpath>", None),
        ("<frozen importlib._bootstrap_external>", None),
        ("<string>", True),
        (pytest.__file__, None),
        (__file__, True),
    ],
)
def test_whose_file_it_is(file: str, is_users: bool | None) -> None:
    """None for libraries: whoever calls them reads."""
    assert _kind(file) is is_users


def test_a_file_that_is_opened_while_python_ends_is_no_error(tmp_path: Path) -> None:
    """Names of modules are gone by then, the hook's own among them."""
    script = tmp_path / "late.py"
    script.write_text(
        "from samebits.host import file_reads\n"
        "class Late:\n"
        "    opens, path = open, __file__\n"
        "    def __del__(self):\n"
        "        self.opens(self.path).close()\n"
        "file_reads.READS.look()\n"
        "file_reads.late = Late()\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, encoding="utf-8", check=False, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
