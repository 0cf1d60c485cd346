"""What every result of a process depends on: environment variables that loaded code, or code of the tree, reads."""

from pathlib import Path
from typing import Any

import pytest

from samebits.host import process_sources
from samebits.host.process_sources import sources_of_process, variables_in


def _parts(tree: Path) -> dict[str, Any]:
    return sources_of_process(tree).parts


def test_variables_that_loaded_code_reads_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "reads_a_variable.py"
    path.write_text("import os\nF = int(os.environ.get('SCALE_OF_A_TEST', '2'))\n")
    monkeypatch.setattr(process_sources, "loaded_files", lambda: {str(path)})  # other tests pass the environment on
    before = _parts(tmp_path / "tree")
    monkeypatch.setenv("SOMETHING_ELSE", "3")
    assert _parts(tmp_path / "tree") == before
    monkeypatch.setenv("SCALE_OF_A_TEST", "3")
    assert _parts(tmp_path / "tree") != before


def test_variables_that_the_tree_reads_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker process loads the implementations, after this one has signed; what passes all on counts once loaded."""
    monkeypatch.setattr(process_sources, "loaded_files", set)
    (tmp_path / "reads.py").write_text("import os\nF = int(os.environ.get('SCALE_OF_A_TEST', '2'))\n")
    (tmp_path / "passes_on.py").write_text("import os, subprocess\nsubprocess.run(['true'], env=dict(os.environ))\n")
    before = _parts(tmp_path)
    monkeypatch.setenv("SOMETHING_ELSE", "3")
    assert _parts(tmp_path) == before
    monkeypatch.setenv("SCALE_OF_A_TEST", "3")
    assert _parts(tmp_path) != before


def test_python_files_of_the_tree_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_sources, "loaded_files", set)
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "helper.py").write_text("")
    (tmp_path / "table").write_text("")
    assert sources_of_process(tmp_path).files == {str((tmp_path / "src" / "helper.py").resolve())}


@pytest.mark.parametrize(
    ("text", "names", "whole"),
    [
        ("x = 1\n", (), False),
        ("import os\na = os.environ['A']\nb = os.environ.get('B', '2')\nc = os.getenv('C')\n", ("A", "B", "C"), False),
        ("from os import environ, getenv\na = environ['A'] + getenv(\"B\", '')\n", ("A", "B"), False),
        ("import os\nd = 'D' in os.environ\n", ("D",), False),
        ("import os\na = os.environ[NAME]\n", (), True),
        ("import os\na = os.environ[f'A{1}']\n", (), True),
        ("import os\na = os.getenv('A' + B)\n", (), True),
        ("import os\nget = os.getenv\n", (), True),
        ("import os\nall = {**os.environ}\n", (), True),
        ("import os\nprint(os.path.expandvars('$HOME'))\n", (), True),
    ],
)
def test_which_variables_code_reads(text: str, names: tuple[str, ...], whole: bool, tmp_path: Path) -> None:
    """What cannot be told by the names that are written there is all of them."""
    (tmp_path / "code.py").write_text(text)
    assert variables_in(str(tmp_path / "code.py")) == (names, whole)


def test_what_lies_in_the_package_of_a_loaded_module_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Outside of the tree; code may import it when it is traced."""
    package = tmp_path / "lib" / "package_of_test"
    package.mkdir(parents=True)
    for name in ("__init__.py", "loaded.py"):
        (package / name).write_text("")
    monkeypatch.setattr(process_sources, "loaded_files", lambda: {str(package / "loaded.py")})
    before = _parts(tmp_path / "tree")
    (tmp_path / "lib" / "other.py").write_text("")
    assert _parts(tmp_path / "tree") == before
    (package / "late.py").write_text("")
    assert _parts(tmp_path / "tree") != before


def test_what_python_and_samebits_write_is_no_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search in a folder that is on Python's path, beside the tree, has its own journal the second time."""
    monkeypatch.setattr(process_sources, "loaded_files", set)
    monkeypatch.setenv("SAMEBITS_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(str(tmp_path))
    before = _parts(tmp_path / "tree")
    for name in ("cache", "__pycache__"):
        (tmp_path / name).mkdir()
        assert _parts(tmp_path / "tree") == before
    (tmp_path / "other").mkdir()
    assert _parts(tmp_path / "tree") != before
