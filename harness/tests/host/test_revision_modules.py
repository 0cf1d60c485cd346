"""Modules of another revision in this process, and today's after them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from samebits.host import isolation
from samebits.host.loading import load_file, load_module
from samebits.host.revision_modules import RevisionModules

NAMES = ("beside_a_tree", "spread_in_a_tree", "inside_a_tree")


@pytest.fixture
def both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, Path]]:
    """A repository and a checkout of it: a package in `src/` on the path, one without `__init__.py`, a tree's file."""
    now, then = tmp_path / "now", tmp_path / "temporary/tree"
    for top, value in ((now, 2), (then, 1)):
        write(top / "src/beside_a_tree/__init__.py", "def late():\n    from beside_a_tree import settings\n")
        write(top / "src/beside_a_tree/settings.py", f"VALUE = {value}\n")
        write(top / "src/spread_in_a_tree/part.py", f"VALUE = {value}\n")
        write(top / "checks/inside_a_tree/file.py", f"def value():\n    return {value}\n")
    monkeypatch.chdir(now / "checks")
    monkeypatch.setattr(sys, "path", [str(now / "checks"), str(now / "src"), *sys.path])
    watched = isolation.watched_files()
    yield now, then
    isolation.watch_only(watched)
    for name in [name for name in sys.modules if name.partition(".")[0] in NAMES]:
        del sys.modules[name]


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def value(module: str) -> int:
    __import__(module)
    return int(sys.modules[module].VALUE)


def test_imports_inside_give_the_checkout(both: tuple[Path, Path]) -> None:
    import samebits

    revision, path = RevisionModules(*both), list(sys.path)
    for name in ("beside_a_tree.settings", "spread_in_a_tree.part"):
        assert value(name) == 2
        today = sys.modules[name]
        with revision.imported():
            assert value(name) == 1
            theirs = sys.modules[name]
            assert sys.modules["samebits"] is samebits
        assert (sys.modules[name], value(name)) == (today, 2)
        with revision.imported():
            assert sys.modules[name] is theirs, "imported once"
    assert sys.path == path


def test_what_only_the_revision_imported_is_gone_after(both: tuple[Path, Path]) -> None:
    revision = RevisionModules(*both)
    write(both[1] / "src/beside_a_tree/broken.py", "from beside_a_tree.settings import VALUE\n1 / (VALUE - 1)\n")
    with pytest.raises(ZeroDivisionError), revision.imported():
        value("beside_a_tree.broken")
    assert "beside_a_tree" not in sys.modules and value("beside_a_tree.settings") == 2


def test_files_of_the_current_folder_are_those_of_the_checkout(both: tuple[Path, Path]) -> None:
    """They are importable under their plain names, which are those of today's files; each is watched as its own."""
    now, then = both
    today = load_file(now / "checks/inside_a_tree/file.py")
    with RevisionModules(now, then).imported():
        theirs = load_file(then / "checks/inside_a_tree/file.py")
        assert theirs.__name__ == today.__name__ == "inside_a_tree.file"
        assert load_module("inside_a_tree.file") is theirs
        with isolation.undone("a test") as changed:
            pass
        assert (theirs.value(), changed) == (1, [])
    assert load_file(now / "checks/inside_a_tree/file.py") is today
    assert (today.value(), isolation.watched_files()["inside_a_tree.file"]) == (2, today)
