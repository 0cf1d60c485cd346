"""What git says about a tree and another checkout, where Python imports from, and when a document was written."""

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from samebits.errors import RequestError
from samebits.host import git
from samebits.host.git import head_commit
from samebits.host.repository_sources import RepositorySources, imported_sources
from samebits.host.written import Written, written_now
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


EPOCH = {"SOURCE_DATE_EPOCH": "1700000000"}
THEN = "2023-11-14T22:13:20Z"


def test_a_tree_in_no_repository_has_no_commit(tmp_path: Path) -> None:
    assert written_now(tmp_path, EPOCH) == Written(time=THEN, commit=None, dirty=False)


def test_a_repository_names_its_commit(tmp_path: Path) -> None:
    run_git(tmp_path, "init", "-q")
    (tmp_path / "one").write_text("1")
    commit(tmp_path)
    assert written_now(tmp_path, EPOCH) == Written(time=THEN, commit=head_commit(tmp_path), dirty=False)
    (tmp_path / "one").write_text("2")
    assert written_now(tmp_path, EPOCH).dirty


def test_the_time_is_in_utc(tmp_path: Path) -> None:
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", written_now(tmp_path, {}).time)


@pytest.mark.parametrize("epoch", ["soon", "9" * 30])
def test_a_wrong_time_is_one_line(epoch: str, tmp_path: Path) -> None:
    with pytest.raises(RequestError) as error:
        written_now(tmp_path, {"SOURCE_DATE_EPOCH": epoch})
    assert str(error.value) == (
        f"SOURCE_DATE_EPOCH={epoch}: expected a number of seconds since 1970, such as 1700000000"
    )


@pytest.fixture
def top(tmp_path: Path) -> Path:
    for name in ("src", "lib", "flat/acme", "elsewhere"):
        (tmp_path / "top" / name).mkdir(parents=True)
    return tmp_path / "top"


def test_folders_of_the_path_inside_count(top: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = [str(tmp_path), str(top / "src"), str(top / "gone"), str(top / "lib"), str(top / "src")]
    monkeypatch.setattr(sys, "path", path)
    environment = {"PYTHONPATH": f"{top}/elsewhere:{tmp_path}"}
    assert imported_sources(top, environment).folders == ("elsewhere", "src", "lib")
    assert imported_sources(top, {}, but=top / "src").folders == ("lib",)


def test_the_first_folder_that_python_adds_itself_does_not(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(top)
    monkeypatch.setattr(sys, "path", [str(top), str(top / "src")])
    assert imported_sources(top, {}).folders == ("src",)


def test_an_environment_inside_is_not_a_source(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(top / "src"), str(top / "lib")])
    monkeypatch.setattr(sys, "prefix", str(top / "lib"))
    assert imported_sources(top, {}).folders == ("src",)


def test_an_editable_install_without_a_folder_is_linked(
    top: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finder = ModuleType("__editable___acme_1_0_finder")
    finder.__dict__["MAPPING"] = {"acme": str(top / "flat/acme"), "other": str(tmp_path), "acme.sub": str(top / "src")}
    monkeypatch.setitem(sys.modules, finder.__name__, finder)
    monkeypatch.setattr(sys, "path", [])
    sources = imported_sources(top, {})
    assert sources == RepositorySources(packages=(("acme", "flat/acme"),)) and sources.paths == ("flat/acme",)
    (tmp_path / "old/flat/acme").mkdir(parents=True)
    (links,) = sources.in_checkout(tmp_path / "old", tmp_path / "links")
    assert (Path(links) / "acme").resolve() == (tmp_path / "old/flat/acme").resolve()


def test_what_a_checkout_lacks_is_left_out(top: Path, tmp_path: Path) -> None:
    sources = RepositorySources(folders=("src", "new"), packages=(("acme", "new"),))
    assert sources.in_checkout(top, tmp_path / "links") == [str(top / "src")]
    assert not (tmp_path / "links").exists()
