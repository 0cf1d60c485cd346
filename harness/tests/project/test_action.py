"""The GitHub action: its own steps, run in their order in scratch repositories, with and without a failure."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from junitparser.xunit2 import JUnitXml

from samebits.cli.new import ACTION as NAME
from samebits.cli.new import workflow
from tests.support.action import ACTION, ActionRun, commit, git, new_repository
from tests.support.foreign import PLANTED, write_pair
from tests.support.invoke import REPOSITORY

INSTALLED = {"samebits": "installed", "cache": "false"}
"""Inputs of a job that has samebits already."""

ONCE = ("--direction", "forward", "--variant", "fast", "--in-process")
"""One point, without a worker process, which imports jax once more."""

FOURTH = "def plain(x):\n    return (x * x) * (x * x)\n"
ONE_BY_ONE = "def fast(x):\n    return ((x * x) * x) * x\n"
"""The same formula, rounded otherwise; of products alone, so that every processor rounds both alike."""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository whose branch `main` has a pair that holds, in a folder of its own; a branch is checked out."""
    root = new_repository(tmp_path)
    git(root, "switch", "--quiet", "--create", "change")
    return root


def run(repository: Path, /, **inputs: str) -> ActionRun:
    given = {**INSTALLED, "root": "checks", "args": " ".join(ONCE), **inputs}
    return ActionRun(workspace=repository, temporary=repository.parent / "runner", inputs=given).run()


def results(ran: ActionRun, name: str) -> list[dict[str, Any]]:
    document = json.loads((Path(ran.outputs["check"]["folder"]) / name).read_text(encoding="utf-8"))
    return list(document["results"])


@pytest.mark.slow
def test_a_branch_that_holds(repository: Path) -> None:
    ran = run(repository, base="main")
    assert (ran.code, ran.annotations) == (0, []), ran.out
    assert (ran.outputs["check"]["code"], ran.outputs["base"]["code"]) == ("0", "0")
    assert "### samebits check: passed" in ran.summary
    assert "### samebits diff: held" in ran.summary
    assert "1 result compared: no change; nothing is worse" in ran.summary
    folder = Path(ran.outputs["check"]["folder"])
    names = {path.name for path in folder.iterdir() if path.suffix != ".log"}
    assert names == {"check.json", "check.md", "check.xml", "base.json", "diff.json", "diff.md"}
    assert ran.used[-1] == (
        "actions/upload-artifact@v4",
        {"name": "samebits", "path": str(folder), "if-no-files-found": "ignore"},
    )
    assert git(repository, "worktree", "list").count("\n") == 0  # the worktree of the base is removed
    assert git(repository, "status", "--porcelain", "--untracked-files=no") == ""


@pytest.mark.slow
def test_a_branch_that_breaks_a_pair(repository: Path) -> None:
    write_pair(repository / "checks", "twice", optimized=PLANTED)
    ran = run(repository, base="main")
    assert ran.code == 1
    place = "::error file=checks/suites/test_twice.py,line=10,title=samebits%3A twice/fast%2C case small%3A "
    assert [line.partition("::planted")[0][: len(place)] for line in ran.annotations] == [place, place]
    assert f"{place}different::" in ran.annotations[0] and f"{place}new failure::" in ran.annotations[1]
    assert "### samebits check: failed" in ran.summary and "witness" in ran.summary
    assert "### samebits diff: worse" in ran.summary and "new failure 1" in ran.summary
    (suite,) = JUnitXml.fromfile(str(Path(ran.outputs["check"]["folder"]) / "check.xml"))
    assert suite.failures == 1
    assert ran.used[-1][0] == "actions/upload-artifact@v4"


@pytest.mark.slow
def test_a_verdict_that_falls_although_the_contract_holds(repository: Path) -> None:
    """The check alone is green: the contract accepts rounding. Against the base it is not."""
    git(repository, "switch", "--quiet", "main")
    write_pair(repository / "checks", "twice", reference=FOURTH, optimized=FOURTH.replace("plain", "fast"))
    commit(repository)
    git(repository, "switch", "--quiet", "--create", "slower")
    write_pair(repository / "checks", "twice", reference=FOURTH, optimized=ONE_BY_ONE)
    ran = run(repository, base="main")
    assert ran.outputs["check"]["code"] == "0", ran.out
    (row,) = results(ran, "diff.json")
    assert row["change"] == "fell" and row["before"] in ("proved", "bitwise") and row["after"] == "rounding"
    assert (ran.outputs["base"]["code"], ran.code) == ("1", 1)
    assert "verdict fell" in ran.annotations[0]


@pytest.mark.slow
def test_a_package_that_is_installed_in_place(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The base is checked with its own code, although Python's path leads to that of the branch."""
    package = repository / "src" / "ours.py"
    package.parent.mkdir()
    package.write_text("def plain(x):\n    return x + x\n\n\ndef fast(x):\n    return 2 * x\n")
    suite = (repository / "checks" / "suites" / "test_twice.py").read_text()
    suite = suite.replace('"plain"', '"ours:plain"').replace("('fast',)", '{"fast": "ours:fast"}')
    (repository / "checks" / "suites" / "test_twice.py").write_text(suite)
    git(repository, "checkout", "--quiet", "-B", "main")
    commit(repository)
    git(repository, "switch", "--quiet", "--create", "wrong")
    package.write_text(package.read_text().replace("2 * x", "3 * x"))
    monkeypatch.setenv("PYTHONPATH", str(package.parent))
    ran = run(repository, base="main")
    (row,) = results(ran, "diff.json")
    assert (row["change"], row["after"]) == ("new failure", "different")


@pytest.mark.slow
@pytest.mark.parametrize("base", ["mian", "0123456789abcdef0123456789abcdef01234567", "--upload-pack=touch x", "%0A"])
def test_a_base_that_does_not_exist(base: str, repository: Path) -> None:
    ran = run(repository, base=base)
    assert (ran.outputs["check"]["code"], ran.outputs["base"]["code"], ran.code) == ("0", "2", 2)
    shown = base.replace("%", "%25")
    assert ran.annotations == [
        f"::error title=samebits::base '{shown}' is not a branch, tag or commit of this repository; write its name, "
        "and fetch-depth: 0 at actions/checkout"
    ]


@pytest.mark.slow
def test_a_base_without_pairs_is_said(repository: Path) -> None:
    git(repository, "switch", "--quiet", "--orphan", "empty")
    (repository / "readme").write_text("nothing yet")
    first = commit(repository)
    git(repository, "switch", "--quiet", "change")
    ran = run(repository, base="empty")
    assert ran.code == 0
    assert ran.annotations == [
        f"::warning title=samebits::not compared with the base: {first[:12]} has no pairs in 'checks'"
    ]
    assert f"Not compared with the base: {first[:12]} has no pairs." in ran.summary


@pytest.mark.slow
def test_a_base_that_cannot_be_checked(repository: Path) -> None:
    ran = run(repository, base="main", pairs="twice added")
    assert ran.code == 2  # the branch has no such pair either
    write_pair(repository / "checks", "added")
    suite = repository / "checks" / "suites" / "test_added.py"
    honest = suite.read_text()
    suite.write_text("raise RuntimeError('broken')\n")
    git(repository, "switch", "--quiet", "--create", "broken")
    commit(repository)
    suite.write_text(honest)
    ran = run(repository, base="broken", pairs="added")
    assert (ran.outputs["check"]["code"], ran.outputs["base"]["code"], ran.code) == ("0", "3", 3)
    assert ran.annotations[0].startswith("::error title=samebits::")


@pytest.mark.slow
@pytest.mark.parametrize("removed", [False, True], ids=["another pair", "no suites"])
def test_a_pair_that_the_base_lacks_is_a_warning(removed: bool, repository: Path) -> None:
    """As in the pull request that adds it."""
    if removed:
        git(repository, "switch", "--quiet", "--orphan", "empty")
        (repository / "checks").mkdir(exist_ok=True)
        (repository / "checks" / "readme").write_text("nothing yet")
        commit(repository)
        git(repository, "switch", "--quiet", "change")
    write_pair(repository / "checks", "added")
    ran = run(repository, base="empty" if removed else "main", pairs="added")
    assert ran.code == 0
    assert len(ran.annotations) == 1
    assert ran.annotations[0].startswith("::warning title=samebits::not compared with the base: ")
    assert "has no pairs" in ran.annotations[0] if removed else "has none of the pairs added" in ran.annotations[0]


@pytest.mark.slow
def test_a_shallow_clone_fetches_its_base(repository: Path) -> None:
    clone = repository.parent / "clone"
    commit_of_main = git(repository, "rev-parse", "main")
    (repository / "note").write_text("a second commit")
    commit(repository)
    git(repository.parent, "clone", "--quiet", "--depth=1", "--branch=change", f"file://{repository}", str(clone))
    ran = run(clone, base="main")
    assert (ran.code, ran.outputs["base"]["code"]) == (0, "0"), ran.out
    assert git(clone, "rev-parse", "FETCH_HEAD") == commit_of_main


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("inputs", "annotation"),
    [
        ({"root": "."}, "samebits::'{root}' has no pairs: expected suites/test_NAME.py in it"),
        (
            {"root": "gone"},
            "samebits::root 'gone' is not a folder of this repository; give the folder that has suites/",
        ),
        ({"pairs": "twise"}, "samebits%3A twise%3A not checked::pair 'twise' is unknown; did you mean twice?"),
        ({"args": "--case 'smal'"}, "samebits::pair 'twice' has no case 'smal'; did you mean small?"),
        ({"args": "--case 'small"}, "samebits::--case 'small: No closing quotation; quote it as in a shell"),
        ({"args": "--casse small"}, "samebits::samebits check ended with exit code 2: Error: No such option"),
    ],
)
def test_nothing_checked_is_no_success(inputs: dict[str, str], annotation: str, repository: Path) -> None:
    ran = run(repository, **inputs)
    assert ran.code == 2, ran.out
    assert ran.annotations[0].startswith(f"::error title={annotation.format(root=repository)}"), ran.out
    if "root" not in inputs and "pairs" not in inputs and "quotation" not in annotation:
        assert "### samebits check: could not run (exit code 2)" in ran.summary


@pytest.mark.slow
def test_words_are_quoted_as_in_a_shell(repository: Path) -> None:
    ran = run(repository, args="--case 'sm*' --direction forward --variant \"fast\"", pairs="  twice  ")
    assert ran.code == 0, ran.out
    assert len(results(ran, "check.json")) == 1


@pytest.mark.slow
def test_installation(repository: Path) -> None:
    ran = run(repository, samebits="", install="-e . -c 'con straints.txt'", pairs="twice", cache="true")
    assert ran.code == 0, ran.out
    (line,) = [line for line in ran.out.splitlines() if line.startswith("pip ")]
    assert line == f"pip install --disable-pip-version-check {REPOSITORY} -e . -c con straints.txt"
    assert "samebits, version 0." in ran.out
    (uses, given) = ran.used[0]
    assert uses == "actions/cache@v4"
    folder = given["path"]
    assert re.fullmatch(r"samebits-[0-9a-f]{20}-5ca1ab1e", given["key"])
    assert given["restore-keys"] == given["key"].removesuffix("5ca1ab1e")
    assert ran.variables["SAMEBITS_CACHE_DIR"] == f"{folder}/samebits"
    assert any(Path(folder, "jax").iterdir())  # jax wrote its programs there


def test_an_installation_that_fails_ends_the_job(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_EXIT", "4")
    ran = run(repository, samebits="samebits==0.0.0")
    assert (ran.code, ran.used, "check" in ran.outputs) == (4, [], False)
    assert "pip install --disable-pip-version-check samebits==0.0.0" in ran.out


def test_python_is_set_up_where_it_is_given(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_EXIT", "4")  # nothing else is of interest
    ran = run(repository, **{"python-version": "3.13", "install": "x"})
    assert ran.used == [("actions/setup-python@v5", {"python-version": "3.13"})]


def test_every_input_is_used_and_every_script_is_run() -> None:
    text = ACTION.read_text(encoding="utf-8")
    declared = set(yaml.safe_load(text)["inputs"])
    assert declared == set(re.findall(r"inputs\.([\w-]+)", text))
    run_by_it = set(re.findall(r"/action/(\w+\.sh)", text))
    assert run_by_it | {"words.sh"} == {path.name for path in (REPOSITORY / "action").iterdir()}


def test_the_guide_uses_inputs_that_exist_and_names_all_of_them() -> None:
    page = (REPOSITORY / "docs" / "guides" / "ci.md").read_text(encoding="utf-8")
    declared = yaml.safe_load(ACTION.read_text(encoding="utf-8"))["inputs"]
    assert set(re.findall(r"^\| `([\w-]+)` \|", page.partition("## A branch against")[0], re.MULTILINE)) == set(
        declared
    )
    text = next(text for text in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL) if "jobs:" in text)
    document = yaml.safe_load(text)
    _, action = document["jobs"]["samebits"]["steps"]
    assert action["uses"] == NAME and set(action["with"]) <= set(declared)
    written = workflow(REPOSITORY, NAME)[1].replace(" # the base of a pull request is checked out too", "")
    assert written.partition("          python-version:")[0] in text
