"""The folders that Python imports from a repository, and the same of another checkout."""

import sys
from pathlib import Path
from types import ModuleType

import pytest

from samebits.host.repository_sources import RepositorySources, imported_sources


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
