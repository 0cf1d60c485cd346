"""`samebits train --against`: the runs of a git revision, made in a worktree, beside today's."""

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from samebits.cli import train_against
from samebits.cli.train_against import TrainedRevision
from samebits.errors import CouldNotRun, RequestError
from samebits.host.subprocesses import ProcessResult
from samebits.report.document import to_json
from samebits.report.train import EnvelopeRecord, TrainDocument
from samebits.schema.result import Problem
from samebits.train.record import LeafRecord, RunRecord, StepRecord
from tests.engine.test_train_work import write_model
from tests.support.blank import blank
from tests.support.documents import ENVIRONMENT
from tests.support.invoke import Ended, samebits
from tests.support.toy_model import commit, git, write_tree

STEPS = 3


def against(tree: Path, revision: str, *more: str | Path) -> tuple[Ended, dict[str, Any]]:
    """The command over the toy matrix, and its document."""
    file = tree.parent / "train.json"
    words = ("train", "--steps", str(STEPS), "--root", tree, "--json", file, "--against", revision)
    ended = samebits(*words, *(more or ("--matrix", "toy")))
    return ended, json.loads(file.read_text()) if file.is_file() else {}


def compared(document: dict[str, Any]) -> list[tuple[str, str, int | None]]:
    """The comparisons with the revision."""
    found = [pairing for pairing in document["comparisons"] if "@" in pairing["a"]]
    return [(pairing["a"], pairing["verdict"], pairing["first_step"]) for pairing in found]


def test_a_change_since_the_revision_is_found(tmp_path: Path) -> None:
    """In every run, at its first step; files that are not committed do not count, and nothing is left behind."""
    tree = write_tree(tmp_path / "tree", "scale=1.001")
    write_tree(tree)
    ended, document = against(tree, "HEAD~1")
    assert ended.code == 1, ended.err
    assert compared(document) == [("one@HEAD~1", "different", 1), ("two@HEAD~1", "different", 1)]
    assert document["against"].startswith("HEAD~1 (") and document["problems"] == document["notes"] == []
    words = ["git", "-C", str(tree), "worktree", "list"]
    assert len(subprocess.run(words, check=True, capture_output=True, text=True).stdout.splitlines()) == 1


@pytest.mark.slow
def test_the_same_commit_is_bitwise(tmp_path: Path) -> None:
    tree = write_tree(tmp_path / "tree")
    (tree / "suites" / "model" / "notes.txt").write_text("not committed")
    ended, document = against(tree, "HEAD", "--config", "toy/two", "--mesh", "data4")
    assert ended.code == 0, ended.out + ended.err
    assert [verdict for _, verdict, _ in compared(document)] == ["bitwise"] * 2


IMPORTING = """from dataclasses import replace
from pathlib import Path

from beside_a_model import BEFORE

from tests.support.toy_model import toy, training


def build(config, parts):
    from beside_a_model import SCALE

    return training(config, {}, BEFORE * SCALE)


MODEL = replace(toy(Path(__file__).parent), build=build)
"""


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["BEFORE", "SCALE"])
def test_sources_beside_the_tree_are_those_of_the_revision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Both those that the model imports with itself and those that it imports when it is built."""
    tree, beside = tmp_path / "checks", tmp_path / "src" / "beside_a_model.py"
    (tree / "suites/model").mkdir(parents=True)
    beside.parent.mkdir()
    (tree / "suites/model/__init__.py").write_text(IMPORTING)
    text = "BEFORE = 1.0\nSCALE = 1.0\n"
    git(tmp_path, "init", "-q")
    for each in (text.replace(f"{name} = 1.0", f"{name} = 1.001"), text):
        beside.write_text(each)
        commit(tmp_path)
    monkeypatch.syspath_prepend(str(beside.parent))
    monkeypatch.chdir(tree)
    ended, document = against(tree, "HEAD~1")
    assert ended.code == 1, ended.err
    assert compared(document) == [("one@HEAD~1", "different", 1), ("two@HEAD~1", "different", 1)]


@pytest.mark.slow
def test_a_crash_and_a_hang_there_cost_one_comparison_each(tmp_path: Path) -> None:
    """Today's runs are whole, the others are compared, and the exit code is 3."""
    sleeps = "__import__('time').sleep(100_000) if config.name == 'four' else None"
    tree = write_model(tmp_path / "tree", f"(os.abort() if config.name == 'two' else None, {sleeps})")
    commit(tree)
    git(tree, "tag", "planted")
    write_model(tree)
    ended, document = against(tree, "planted", "--matrix", "toy", "--workers", "2", "--timeout", "25")
    assert ended.code == 3, ended.out + ended.err
    assert [run["config"] for run in document["results"]] == ["one", "two", "four", "twin"]
    assert [pair[:2] for pair in compared(document)] == [("one@planted", "bitwise"), ("twin@planted", "bitwise")]
    problems = {problem["pair"]: problem["message"] for problem in document["problems"]}
    assert problems.keys() == {"two@planted", "four@planted"}
    assert "SIGABRT" in problems["two@planted"] and "more than 25 s" in problems["four@planted"]
    assert all(f"--root {tree} --against planted" in message for message in problems.values())


def test_a_revision_without_a_model(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "suites").mkdir(parents=True)
    (tree / "suites" / "keep").write_text("")
    git(tree, "init", "-q")
    commit(tree)
    write_tree(tree)
    ended, _ = against(tree, "HEAD~1")
    assert ended.code == 2
    named, why = ended.lines
    assert named.endswith("): its runs come first") and "'its tree' has no full model" in why
    assert why.startswith(named.removesuffix(": its runs come first"))


def run(name: str, *sizes: float) -> RunRecord:
    """A run whose gradient has these norms."""
    steps = tuple(
        blank(
            StepRecord,
            step=number,
            loss=1.5,
            loss_hex=(1.5).hex(),
            digests={"gradient/w": LeafRecord(digest=str(float(size)), l1=size, l2=size)},
        )
        for number, size in enumerate(sizes, 1)
    )
    return blank(RunRecord, config=name, digest="d", dtype="float32", steps=steps)


NOISE = blank(EnvelopeRecord, config="one", loss_noise=(1, 1), loss_bound=(4, 4), norm_noise={"gradient": (1e-7, 1e-7)})
THEN = blank(
    TrainDocument,
    matrix="toy",
    environment=ENVIRONMENT,
    envelope=NOISE,
    results=(run("one", 1, 1), run("old", 1, 1)),
    problems=(Problem(pair="two", message="its process ended", exit_code=3),),
)
MAIN = TrainedRevision(revision="main", commit="c" * 40, document=THEN)


@pytest.mark.parametrize(
    ("size", "verdict"), [(1.0, "bitwise"), (1.0 + 1e-7, "rounding"), (1.001, "different"), (0.0, "different")]
)
def test_a_gradient_is_judged_by_the_bounds_of_the_revision(size: float, verdict: str) -> None:
    (found,) = MAIN.comparisons({"one": run("one", 1, size), "new": run("new", 1, 1)})
    assert (found.a, found.b, found.verdict, found.ok) == ("one@main", "one", verdict, verdict != "different")
    assert found.reason == "the same configuration at main"
    assert found.first_step == (None if verdict == "bitwise" else 2)


def test_runs_of_one_revision_and_environments_are_named() -> None:
    """A run that could not run at the revision is a problem there, and is not new."""
    names = ("one", "two", "new")
    assert MAIN.notes(names, ENVIRONMENT) == ["old runs at main and does not run now", "new is new since main"]
    assert [(problem.pair, problem.exit_code) for problem in MAIN.problems()] == [("two@main", 3)]
    (*_, said) = MAIN.notes(names, replace(ENVIRONMENT, devices=16))
    assert said.startswith("the runs at main had another environment: devices ") and said.endswith("-> 16")


def test_what_the_process_of_the_revision_writes_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A replay there is one of both trees, and a revision without a run of today's matrix is rejected."""
    tree = write_tree(tmp_path / "tree")

    def ran(words: list[str], tree: Path, there: Path, folder: Path) -> ProcessResult:
        again = Problem(pair="two", message=f"again: samebits train --root {there}", exit_code=3)
        (folder / "train.json").write_text(to_json(replace(THEN, problems=(again,))), encoding="utf-8")
        return ProcessResult(code=3)

    monkeypatch.setattr(train_against, "_run", ran)
    (problem,) = train_against.train_at("HEAD", tree, (), ["one"]).problems()
    assert problem.message == f"again: samebits train --root {tree} --against HEAD"
    with pytest.raises(RequestError, match="--against HEAD: no run of 'toy' is in both revisions"):
        train_against.train_at("HEAD", tree, (), ["other"])
    monkeypatch.setattr(train_against, "_run", lambda *_: ProcessResult(code=-9, err="samebits: the last words"))
    with pytest.raises(CouldNotRun, match=r"--against HEAD \(\w{12}\): the last words"):
        train_against.train_at("HEAD", tree, (), ["one"])


def test_without_an_envelope_nothing_is_compared() -> None:
    bare = replace(MAIN, document=replace(THEN, envelope=None))
    assert bare.comparisons({"one": run("one", 1, 1)}) == []
