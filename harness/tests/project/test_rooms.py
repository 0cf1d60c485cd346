"""The tests mirror the rooms of the package: every room has its folder, every module its test file."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.project import rooms
from tests.project.import_graph import PACKAGE, ROOT
from tests.project.rooms import TESTS, THROUGH, listed_tests_reach, modules_with_tests, rooms_with_tests

Rule = Callable[[Path], list[str]]
RULES: tuple[Rule, ...] = (rooms_with_tests, modules_with_tests, listed_tests_reach)


ROOMS = ("hlo", "numerics")
"""Two small rooms; the second has a module in `THROUGH`: `LISTED`."""

LISTED = "numerics/seeds"


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tree of two rooms and their tests, that keeps all rules: in the whole one they hold of its own."""
    for folder in (PACKAGE, TESTS):
        for name in ROOMS:
            shutil.copytree(
                ROOT / folder / name, tmp_path / folder / name, ignore=shutil.ignore_patterns("__pycache__")
            )
    (file,) = (file for file, names in THROUGH.items() if LISTED in names)
    monkeypatch.setattr(rooms, "THROUGH", {file: (LISTED,)})
    return tmp_path


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_tree_keeps_the_rule(rule: Rule) -> None:
    if wrong := rule(ROOT):
        pytest.fail("\n".join(wrong), pytrace=False)


def test_a_room_without_tests_is_found(tree: Path) -> None:
    shutil.rmtree(tree / TESTS / "hlo")
    assert rooms_with_tests(tree) == [f"{PACKAGE}/hlo has no tests in {TESTS}/hlo"]


def test_a_folder_of_tests_that_is_not_a_room_is_found(tree: Path) -> None:
    (tree / TESTS / "hlo").rename(tree / TESTS / "programs_of_xla")
    assert f"{TESTS}/programs_of_xla is neither a room of {PACKAGE}" in rooms_with_tests(tree)[1]


def test_a_module_without_a_test_is_found(tree: Path) -> None:
    (tree / PACKAGE / "hlo" / "planted.py").write_text("", encoding="utf-8")
    (wrong,) = modules_with_tests(tree)
    assert wrong.startswith(f"{PACKAGE}/hlo/planted.py: no test of its room imports it")
    assert f"write {TESTS}/hlo/test_planted.py" in wrong


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("hlo/test_planted.py", ""),
        ("hlo/test_other.py", "from samebits.hlo.planted import f"),
        ("hlo/test_other.py", "from samebits.hlo import planted"),
    ],
)
def test_a_module_with_a_test_of_its_room_is_accepted(file: str, text: str, tree: Path) -> None:
    (tree / PACKAGE / "hlo" / "planted.py").write_text("", encoding="utf-8")
    (tree / TESTS / file).write_text(text, encoding="utf-8")
    assert modules_with_tests(tree) == []


def test_a_test_of_another_room_is_not_enough(tree: Path) -> None:
    (tree / PACKAGE / "hlo" / "planted.py").write_text("", encoding="utf-8")
    (tree / TESTS / "numerics" / "test_other.py").write_text("import samebits.hlo.planted", encoding="utf-8")
    assert len(modules_with_tests(tree)) == 1


def test_a_listed_module_with_a_test_of_its_own_is_found(tree: Path) -> None:
    (tree / TESTS / "numerics" / "test_seeds.py").write_text("", encoding="utf-8")
    (wrong,) = modules_with_tests(tree)
    assert wrong.endswith(f"lists '{LISTED}', which has a test of its own: remove it")


def test_a_listed_module_that_is_gone_is_found(tree: Path) -> None:
    (tree / PACKAGE / f"{LISTED}.py").unlink()
    (wrong,) = modules_with_tests(tree)
    assert wrong.endswith(f"lists '{LISTED}', which does not exist")


def test_a_listed_test_that_does_not_run_the_module_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rooms, "THROUGH", {"numerics/test_floats.py": ("host/loading",)})
    (wrong,) = listed_tests_reach(ROOT)
    assert wrong.startswith(f"{TESTS}/numerics/test_floats.py does not lead to 'host/loading'")


def test_a_listed_test_that_does_not_exist_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rooms, "THROUGH", {"cli/test_nothing.py": ()})
    assert "names cli/test_nothing.py, which does not exist" in listed_tests_reach(ROOT)[0]
