"""What stands for the current folder, while it does."""

from __future__ import annotations

from pathlib import Path

from samebits.host.current_folder import current_folder, instead_of_current_folder


def test_a_folder_stands_for_the_current_one_inside_a_block(tmp_path: Path) -> None:
    assert current_folder() == Path.cwd()
    with instead_of_current_folder(tmp_path):
        with instead_of_current_folder(tmp_path / "a"):
            assert current_folder() == tmp_path / "a"
        assert current_folder() == tmp_path != Path.cwd()
    assert current_folder() == Path.cwd()
