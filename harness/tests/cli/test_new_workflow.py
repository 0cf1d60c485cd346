"""`samebits new --ci` writes a workflow that GitHub can read, at the top of the repository, with inputs that exist."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from samebits.cli.new import ACTION, WORKFLOW
from tests.support.invoke import REPOSITORY, samebits


def steps(file: Path) -> list[dict[str, Any]]:
    document = yaml.safe_load(file.read_text(encoding="utf-8"))
    assert set(document) == {"name", True, "permissions", "jobs"}  # YAML 1.1 reads `on` as a truth value
    assert set(document[True]) == {"pull_request", "push"}
    (job,) = document["jobs"].values()
    return list(job["steps"])


def test_the_workflow_uses_the_action_of_this_version(tmp_path: Path) -> None:
    ended = samebits("new", "--ci", "--root", tmp_path)
    assert (ended.code, ended.lines) == (0, [])
    assert ended.out.splitlines()[0] == f"wrote {tmp_path / WORKFLOW}"
    checkout, action = steps(tmp_path / WORKFLOW)
    assert checkout["with"] == {"fetch-depth": 0}
    assert action["uses"] == ACTION and ACTION.startswith("samebits/samebits@v0.")
    assert set(action["with"]) == {"python-version", "base"}
    assert action["with"]["base"] == "${{ github.event.pull_request.base.sha }}"


@pytest.mark.parametrize(
    ("file", "installs"),
    [("pyproject.toml", "-e ."), ("setup.py", "-e ."), ("requirements.txt", "-r requirements.txt")],
)
def test_a_tree_inside_a_repository(file: str, installs: str, tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    (tmp_path / file).write_text("")
    tree = tmp_path / "checks" / "numerics"
    tree.mkdir(parents=True)
    assert samebits("new", "--ci", "--root", tree, "--action", "./").code == 0
    _, action = steps(tmp_path / WORKFLOW)
    assert action["uses"] == "./"
    assert (action["with"]["install"], action["with"]["root"]) == (installs, "checks/numerics")
    declared = yaml.safe_load((REPOSITORY / "action.yml").read_text(encoding="utf-8"))["inputs"]
    assert set(action["with"]) <= set(declared)


@pytest.mark.parametrize("action", ["samebits", "samebits/samebits", "a b/c@v1", ""])
def test_an_action_that_github_cannot_find(action: str, tmp_path: Path) -> None:
    ended = samebits("new", "--ci", "--root", tmp_path, "--action", action)
    line = f"samebits: --action {action}: expected OWNER/REPOSITORY@REF, or ./FOLDER of this repository"
    assert (ended.code, ended.lines, list(tmp_path.iterdir())) == (2, [line], [])


def test_a_name_and_a_workflow_are_two_commands(tmp_path: Path) -> None:
    ended = samebits("new", "rope", "--ci", "--root", tmp_path)
    line = "samebits: --ci writes the workflow of a whole tree; leave out the name of a pair"
    assert (ended.code, ended.lines) == (2, [line])
    ended = samebits("new", "--ci", "--arg", "x=f32[8]", "--root", tmp_path)
    assert (ended.code, ended.lines) == (2, ["samebits: --ci goes with --action and --root alone"])


def test_the_workflow_is_not_overwritten(tmp_path: Path) -> None:
    assert samebits("new", "--ci", "--root", tmp_path).code == 0
    ended = samebits("new", "--ci", "--root", tmp_path)
    assert (ended.code, len(ended.lines)) == (2, 1) and "no file is overwritten" in ended.lines[0]
