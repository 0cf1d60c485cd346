"""The state of what was read: equal where its content is, and another where that has changed."""

from pathlib import Path

from samebits.host.file_reads import FILE, FOLDER, state_of


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
