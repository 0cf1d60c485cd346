"""A folder without pairs is reported as such; the built-in pairs are checked from any folder with `--builtin`."""

import json
from pathlib import Path

import pytest

from samebits.host import environment
from samebits.host.installed import builtin_tree
from samebits.programs.catalogue import names
from tests.support.invoke import samebits, samebits_process

environment.prepare()


@pytest.mark.parametrize("command", ["list", "check", "prove", "compile", "audit claims"])
def test_a_folder_without_pairs_is_one_line(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ended = samebits(*command.split())
    assert ended.code == 2
    (line,) = ended.lines
    assert str(tmp_path) in line and "suites/test_NAME.py" in line and "--root TREE" in line and "--builtin" in line


def test_the_built_in_pairs_are_listed_from_any_folder(tmp_path: Path) -> None:
    ended = samebits_process("list", "--builtin", "--json", tmp_path / "list.json", cwd=tmp_path)
    assert ended.code == 0, ended.err
    listed = [one["pair"] for one in json.loads((tmp_path / "list.json").read_text())["results"]]
    assert listed == names(builtin_tree())
    assert len(listed) >= 27


@pytest.mark.slow
def test_a_replay_names_them_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = ("--variant", "zero1", "--mesh", "data2", "--dtype", "float32", "--mode", "auto", "--direction", "forward")
    ended = samebits("check", "optimizer_state", "--builtin", *words, "--json", tmp_path / "check.json")
    assert ended.code == 0, ended.out + ended.err
    results = json.loads((tmp_path / "check.json").read_text())["results"]
    assert results and all("--builtin" in one["replay"] and "--root" not in one["replay"] for one in results)


def test_pairs_of_the_folder_come_before_the_built_in_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "suites").mkdir()
    monkeypatch.chdir(tmp_path)
    ended = samebits("check", "optimizer_state")
    assert ended.code == 2
    assert "no pairs yet" in ended.err
