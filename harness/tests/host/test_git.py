"""What git says about a tree: commits, contents, a checkout of another revision, and uncommitted files."""

import re
from pathlib import Path

import pytest

from samebits.errors import RequestError
from samebits.host import git
from tests.support.toy_model import commit
from tests.support.toy_model import git as run_git


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Two commits: the second changes `a/one` and adds `b/two`."""
    run_git(tmp_path, "init", "-q")
    write(tmp_path, "a/one", "1\n")
    commit(tmp_path)
    write(tmp_path, "a/one", "2\n")
    write(tmp_path, "b/two", "2\n")
    commit(tmp_path)
    return tmp_path


def write(root: Path, name: str, text: str) -> None:
    (root / name).parent.mkdir(exist_ok=True)
    (root / name).write_text(text)


def test_a_history_is_the_commits_between_parents_first(tree: Path) -> None:
    head = git.head_commit(tree)
    (only,) = git.history(tree, git.commit_of(tree, "HEAD~1"), head)
    assert (only.id, only.author, only.subject) == (head, "A", "toy")
    assert only.parents == (git.commit_of(tree, "HEAD~1"),)
    assert str(only) == f"{head[:12]} toy"
    assert git.history(tree, head, head) == []


def test_ancestors(tree: Path) -> None:
    before, head = git.commit_of(tree, "HEAD~1"), git.head_commit(tree)
    assert git.is_ancestor(tree, before, head) and not git.is_ancestor(tree, head, before)


def test_contents_are_equal_where_the_folders_are(tree: Path) -> None:
    before, head = git.commit_of(tree, "HEAD~1"), git.head_commit(tree)
    of_a = git.contents(tree, [before, head], ["a"])
    assert of_a[before] != of_a[head]
    assert git.contents(tree, [before, head], ["b"])[before] == "missing"


def test_a_checkout_is_as_the_tree_was_and_is_removed(tree: Path) -> None:
    with git.checkout(tree, "HEAD~1") as old:
        assert (old / "a/one").read_text() == "1\n" and not (old / "b").exists()
    assert not old.exists()
    with pytest.raises(RequestError, match=r"has no folder b$"), git.checkout(tree / "b", "HEAD~1"):
        pass


def test_folders_are_extracted_without_touching_the_tree(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    to = tmp_path_factory.mktemp("extracted")
    git.extract(tree, git.commit_of(tree, "HEAD~1"), ["a", "b"], to)
    assert {path.name: path.read_text() for path in to.rglob("*") if path.is_file()} == {"one": "1\n"}
    assert git.is_dirty(tree) == []


def test_a_difference_is_a_patch_of_the_folders(tree: Path) -> None:
    before, head = git.commit_of(tree, "HEAD~1"), git.head_commit(tree)
    patch = git.difference(tree, before, head, ["a"])
    assert "-1\n+2" in patch and "b/two" not in patch
    assert "b/two" in git.difference(tree, before, head)
    assert "+1" in git.difference(tree, None, before)


def test_files_that_are_not_as_committed_are_named(tree: Path) -> None:
    assert git.is_dirty(tree) == []
    write(tree, "a/one", "3\n")
    write(tree, "new", "")
    assert sorted(git.is_dirty(tree)) == ["a/one", "new"]
    assert git.is_dirty(tree, except_for=tree / "a") == ["new"]
    for place in ("__pycache__/one.cpython-311.pyc", "a/__pycache__/one.cpython-311.pyc"):  # which imports leave
        write(tree, place, "")
    assert sorted(git.is_dirty(tree)) == ["a/one", "new"]
    write(tree, "a/cache__/one.pyc", "")
    assert "a/cache__/one.pyc" in git.is_dirty(tree)


def test_files_outside_of_a_tree_count_as_uncommitted(tree: Path) -> None:
    """A commit stands for all of its repository, and a tree may import what lies beside it."""
    write(tree, "b/two", "3\n")
    write(tree, "a/[x]", "")
    assert sorted(git.is_dirty(tree / "a")) == ["a/[x]", "b/two"], "relative to the top"
    assert git.is_dirty(tree / "a", except_for=tree / "a") == ["b/two"]
    assert git.is_dirty(tree / "a", except_for=tree / "b") == ["a/[x]"]
    assert len(git.is_dirty(tree / "a", except_for=tree.parent)) == 2


@pytest.mark.parametrize("revision", ["nowhere", "--all"])
def test_an_unknown_revision_is_one_line(tree: Path, revision: str) -> None:
    line = f"'{revision}' is not a revision of {tree}; expected a branch, a tag or a commit"
    with pytest.raises(RequestError, match=f"^{re.escape(line)}$"):
        git.commit_of(tree, revision)


def test_a_folder_without_a_repository_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(
        RequestError, match=r"is in no git repository; a revision can only be compared with inside one$"
    ):
        git.commit_of(tmp_path, "HEAD")
