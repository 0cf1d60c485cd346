"""`samebits new` writes a pair that holds, rejects wrong names, and overwrites nothing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from samebits.cli.new import FILES
from tests.support.invoke import samebits


def written(root: Path) -> dict[str, str]:
    return {
        path.relative_to(root).as_posix(): path.read_text(encoding="utf-8")
        for path in root.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_the_pair_holds_and_a_mistake_in_it_does_not(tmp_path: Path) -> None:
    made = samebits("new", "shift", "--root", tmp_path)
    assert (made.code, made.lines) == (0, [])
    assert made.out.splitlines()[-1] == f"next: samebits check shift --root {tmp_path}"
    assert set(written(tmp_path)) == {path.format(name="shift") for path in FILES}
    honest = samebits("check", "shift", "--root", tmp_path)
    assert honest.code == 0 and re.search(r"rolled +proved \d+ +bitwise \d+", honest.out), honest.out
    other = tmp_path / "other"
    assert samebits("new", "shift", "--root", other).code == 0
    variant = other / "optimized_impls" / "shift.py"
    variant.write_text(variant.read_text(encoding="utf-8").replace("-by", "by"), encoding="utf-8")
    assert samebits("check", "shift", "--root", other).code == 1


@pytest.mark.parametrize("name", ["my-pair", "2fast", "class", "_hidden", "a/b", ""])
def test_a_name_that_is_no_identifier(name: str, tmp_path: Path) -> None:
    ended = samebits("new", name, "--root", tmp_path)
    line = f"samebits: '{name}' cannot name a pair; expected a Python identifier such as rope or rms_norm"
    assert (ended.code, ended.out, ended.lines, written(tmp_path)) == (2, "", [line], {})


def test_no_file_is_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "suites" / "test_rope.py"
    path.parent.mkdir()
    path.write_text("PAIR = None\n")
    ended = samebits("new", "rope", "--root", tmp_path)
    line = f"samebits: '{path}' exists, and no file is overwritten; choose another name"
    assert (ended.code, ended.lines, written(tmp_path)) == (2, [line], {"suites/test_rope.py": "PAIR = None\n"})


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "reference_impls").write_text("a file where the folder belongs")
    ended = samebits("new", "rope", "--root", tmp_path)
    assert (ended.code, ended.lines) == (
        3,
        [f"samebits: '{tmp_path / 'reference_impls'}' cannot be written: File exists"],
    )
