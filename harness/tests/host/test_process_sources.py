"""What every result of a process depends on: environment variables that loaded code, or code of the tree, reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from samebits.host import process_sources
from samebits.host.process_sources import sources_of_process


def _parts(tree: Path) -> dict[str, Any]:
    return sources_of_process(tree).parts


def test_variables_that_loaded_code_reads_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "reads_a_variable.py"
    path.write_text("import os\nF = int(os.environ.get('SCALE_OF_A_TEST', '2'))\n")
    monkeypatch.setattr(process_sources, "_loaded", lambda: {str(path)})  # other tests pass the environment on
    before = _parts(tmp_path / "tree")
    monkeypatch.setenv("SOMETHING_ELSE", "3")
    assert _parts(tmp_path / "tree") == before
    monkeypatch.setenv("SCALE_OF_A_TEST", "3")
    assert _parts(tmp_path / "tree") != before


def test_variables_that_the_tree_reads_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker process loads the implementations, after this one has signed; what passes all on counts once loaded."""
    monkeypatch.setattr(process_sources, "_loaded", set)
    (tmp_path / "reads.py").write_text("import os\nF = int(os.environ.get('SCALE_OF_A_TEST', '2'))\n")
    (tmp_path / "passes_on.py").write_text("import os, subprocess\nsubprocess.run(['true'], env=dict(os.environ))\n")
    before = _parts(tmp_path)
    monkeypatch.setenv("SOMETHING_ELSE", "3")
    assert _parts(tmp_path) == before
    monkeypatch.setenv("SCALE_OF_A_TEST", "3")
    assert _parts(tmp_path) != before


def test_python_files_of_the_tree_are_named(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "helper.py").write_text("")
    (tmp_path / "table").write_text("")
    assert sources_of_process(tmp_path).written == {str((tmp_path / "src" / "helper.py").resolve())}
