"""The state of what was read: equal where its content is, and another where that has changed."""

import os
from pathlib import Path

from samebits.host.file_reads import FILE, FOLDER, LISTED, MODULES, changed_since, state_of


def test_modules_that_come_and_go(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("")
    before = state_of(f"{MODULES}{tmp_path}")
    assert before == state_of(f"{LISTED}{tmp_path}")
    (tmp_path / "results.json").write_text("{}")
    (tmp_path / ".mypy_cache").mkdir()
    (tmp_path / "results-2026-11-27").mkdir()
    assert state_of(f"{MODULES}{tmp_path}") == before
    for name in ("b.py", "with-hyphen.py"):  # the second can be imported by its name as a text
        (tmp_path / name).write_text("")
        assert state_of(f"{MODULES}{tmp_path}") != before
        before = state_of(f"{MODULES}{tmp_path}")
    (tmp_path / "compiled.pyc").write_text("")
    assert state_of(f"{MODULES}{tmp_path}") != before
    before = state_of(f"{MODULES}{tmp_path}")
    (tmp_path / "package").mkdir()
    assert state_of(f"{MODULES}{tmp_path}") != before
    assert state_of(f"{MODULES}{tmp_path / 'missing'}") == ""


def test_a_database_with_entries_in_its_log(tmp_path: Path) -> None:
    """What was committed is in the log alone until somebody copies it into the database."""
    path = tmp_path / "table.db"
    (tmp_path / "table.db-wal").write_text("")
    before = state_of(f"{FILE}{path}-wal")
    assert before == state_of(f"{FILE}{tmp_path / 'missing-wal'}"), "every reader makes an empty one"
    (tmp_path / "table.db-wal").write_text("an entry")
    assert state_of(f"{FILE}{path}-wal") != before


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


def test_files_that_changed_since_a_moment(tmp_path: Path) -> None:
    path = tmp_path / "data.txt"
    path.write_text("a")
    changed = os.stat(path).st_ctime_ns
    assert changed_since([f"{FILE}{path}"], changed) is None
    assert changed_since([f"{FILE}{tmp_path / 'missing'}", f"{FILE}{path}"], changed - 1) == str(path)
