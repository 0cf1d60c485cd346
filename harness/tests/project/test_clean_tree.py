"""A test run that leaves the repository changed fails: a repository with our `conftest.py`, and tests that write."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.child import ROOT
from tests.support.forked import run_module
from tests.support.toy_model import commit, git

WRITES_NOTHING = "def test_it(tmp_path): (tmp_path / 'left.txt').touch()"
LEAVES_A_FILE = "def test_it(): open('left.txt', 'w').close()"
CHANGES_A_FILE = "def test_it(): open('kept.txt', 'a').write('more')"
REMOVES_A_FILE = "import os\ndef test_it(): os.remove('kept.txt')"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q")
    shutil.copy(ROOT / "conftest.py", tmp_path)
    (tmp_path / "kept.txt").write_text("as committed")
    (tmp_path / ".gitignore").write_text("__pycache__/\n")
    return tmp_path


def run(repository: Path, test: str, *words: str) -> subprocess.CompletedProcess[str]:
    (repository / "test_it.py").write_text(f"{test}\n")
    commit(repository)
    return run_module("pytest", "-q", "-p", "no:cacheprovider", *words, cwd=repository, variables={})


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("test", "file", "words"),
    [
        (LEAVES_A_FILE, "left.txt", ()),
        (LEAVES_A_FILE, "left.txt", ("-n", "1")),
        (CHANGES_A_FILE, "kept.txt", ()),
        (REMOVES_A_FILE, "kept.txt", ()),
    ],
)
def test_a_run_that_changes_the_repository_fails(
    test: str, file: str, words: tuple[str, ...], repository: Path
) -> None:
    ended = run(repository, test, *words)
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert f"changed while the tests ran: {file}; write to tmp_path instead" in ended.stdout
    assert "1 passed" in ended.stdout


@pytest.mark.slow
def test_a_run_that_changes_nothing_passes(repository: Path) -> None:
    (repository / "draft.txt").touch()
    ended = run(repository, WRITES_NOTHING)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (repository / "draft.txt").write_text("uncommitted before the tests")
    assert run_module("pytest", "-q", "-p", "no:cacheprovider", cwd=repository, variables={}).returncode == 0


@pytest.mark.slow
def test_outside_of_git_nothing_is_checked(repository: Path) -> None:
    (repository / "test_it.py").write_text(f"{LEAVES_A_FILE}\n")
    shutil.rmtree(repository / ".git")
    assert run_module("pytest", "-q", "-p", "no:cacheprovider", cwd=repository, variables={}).returncode == 0
