"""What samebits reads for its keys and digests is no read of the test that called it; what the user's code reads is."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from samebits.host.file_reads import OUTSIDE, READS, _kind
from samebits.host.git import author
from samebits.host.installed import PACKAGE, own_digest
from samebits.host.loading import load_file


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
