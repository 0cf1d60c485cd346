"""`samebits train --against` as work: the runs at another revision are items, and a crash there costs one of them."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import pytest

from samebits.engine.matrix_runs import TrainedRun
from samebits.engine.revision_runs import Revision, compared_at, revision_items
from samebits.engine.train_work import TrainWork, assembled, train_items
from samebits.engine.work import Finished, Item, Loss
from samebits.errors import RequestError
from samebits.schema.model import Config, Matrix
from samebits.train.matrix import MatrixResult, run_matrix
from samebits.train.other_revision import matrix_at
from samebits.train.request import TrainRequest, select
from tests.engine.test_train_work import write_model
from tests.support.invoke import samebits
from tests.support.planted_model import WAITS, killed_and_resumed, write_planted
from tests.support.revision_here import compared_here
from tests.support.toy_model import MATRIX, commit, git, write_tree

STEPS = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Ran:
    """A matrix at two revisions: the items, and their rows, the last of a process of its own."""

    request: TrainRequest
    matrix: Matrix
    revision: Revision
    items: list[Item]
    rows: Mapping[str, TrainedRun]

    def today(self) -> MatrixResult:
        """Today's runs."""
        rows = {key: row for key, row in self.rows.items() if "@" not in key}
        return assembled(self.matrix, self.request.tree, rows, 1.0)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """Gradients were a thousandth larger, and are right today."""
    tree = write_tree(tmp_path_factory.mktemp("train"), "scale=1.001")
    write_tree(tree)
    request = TrainRequest(matrix="toy", steps=STEPS, root=tree)
    _, matrix = select(request)
    with matrix_at(request, "HEAD~1") as (there, commit, _, then):
        revision = Revision(name="HEAD~1", commit=commit, tree=there.tree)
        items = train_items(request, matrix)
        items += revision_items(revision, then.runs, matrix, {item.key: item.replay for item in items})
        rows: dict[str, TrainedRun] = {}
        for chunk in (items[:3], items[3:]):
            work = pickle.loads(pickle.dumps(TrainWork(request, cached=False, revision=revision)))
            finished = [event for event in work.run(chunk, 0) if isinstance(event, Finished)]
            rows |= {event.key: msgspec.json.decode(event.rows[0], type=TrainedRun) for event in finished}
            work.close()
    return Ran(request=request, matrix=matrix, revision=revision, items=items, rows=rows)


def test_a_change_since_the_revision_is_found(ran: Ran) -> None:
    """In every run, at its first step."""
    assert [item.key for item in ran.items] == ["one", "two", "one@HEAD~1", "two@HEAD~1"]
    against = compared_at(ran.revision, ran.matrix.runs, ran.rows, ran.today())
    assert [(one.a, one.b, one.verdict, one.first_step) for one in against.comparisons] == [
        ("one@HEAD~1", "one", "different", 1),
        ("two@HEAD~1", "two", "different", 1),
    ]
    assert not against.problems and not against.notes


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
    request = TrainRequest(config="toy/one", steps=STEPS, root=tree)
    _, matrix = select(request)
    today = sys.modules["beside_a_model"]
    try:
        with matrix_at(request, "HEAD~1") as (there, at, _, then):
            revision = Revision(name="HEAD~1", commit=at, tree=there.tree)
            items = train_items(request, matrix)
            items += revision_items(revision, then.runs, matrix, {item.key: item.replay for item in items})
            first = [item for item in items if item.key.partition("@")[0] == matrix.runs[0].name]
            work = TrainWork(request, cached=False, revision=revision)
            finished = [event for event in work.run(first, 0) if isinstance(event, Finished)]
            now, before = (msgspec.json.decode(event.rows[0], type=TrainedRun) for event in finished)
            work.close()
        assert not (now.error or before.error) and now.first_bits != before.first_bits
        assert sys.modules["beside_a_model"] is today
    finally:
        del sys.modules["beside_a_model"]


@pytest.mark.slow
def test_processes_of_their_own_give_the_comparison_of_one(ran: Ran) -> None:
    """Distances, bounds and all."""
    model, matrix = select(ran.request)
    here = compared_here(run_matrix(model, matrix, ran.request.tree, STEPS), ran.request, "HEAD~1")
    parts = compared_at(ran.revision, matrix.runs, ran.rows, ran.today())
    assert parts.comparisons == here and len(here) == 2


def test_a_lost_run_of_the_revision_is_a_problem(ran: Ran) -> None:
    """With its replay; the others are compared. Without the first run there is no bound for any."""
    items = {item.key: item for item in ran.items}
    work = TrainWork(ran.request, cached=False, revision=ran.revision)
    lost = {key: work.lost(items[key], Loss(kind="signal", text="SIGSEGV"), "running it") for key in items}
    rows = {**ran.rows, "two@HEAD~1": lost["two@HEAD~1"]}
    against = compared_at(ran.revision, ran.matrix.runs, rows, ran.today())
    assert [one.a for one in against.comparisons] == ["one@HEAD~1"]
    (problem,) = against.problems
    assert (problem.pair, problem.exit_code) == ("two@HEAD~1", 3)
    assert problem.message == (
        "config 'two@HEAD~1': its process ended while running it: SIGSEGV; again: samebits train --config toy/two "
        f"--steps {STEPS} --root {ran.request.tree} --against 'HEAD~1'"
    )
    against = compared_at(ran.revision, ran.matrix.runs, {**ran.rows, "one@HEAD~1": lost["one@HEAD~1"]}, ran.today())
    assert not against.comparisons and [problem.pair for problem in against.problems] == ["one@HEAD~1"]


def test_another_first_run_in_another_process_is_told(ran: Ran) -> None:
    """Distances from states that are not those of the envelope say nothing."""
    rows = {**ran.rows, "two@HEAD~1": replace(ran.rows["two@HEAD~1"], first_bits="others")}
    against = compared_at(ran.revision, ran.matrix.runs, rows, ran.today())
    (problem,) = against.problems
    assert problem.pair == "two@HEAD~1" and "does not repeat its own bits" in problem.message
    assert [one.a for one in against.comparisons] == ["one@HEAD~1"]


def test_runs_of_one_revision_alone_are_named(ran: Ran) -> None:
    """And are not run; a matrix without any of today's runs is rejected before anything runs."""
    other = Config(name="other", mesh="data2")
    items = revision_items(ran.revision, (MATRIX.runs[0], other), ran.matrix, {"one": "a", "two": "b"})
    assert [item.key for item in items] == ["one@HEAD~1"]
    against = compared_at(ran.revision, (MATRIX.runs[0], other), ran.rows, ran.today())
    assert against.notes == ["other runs at HEAD~1 and does not run now", "two is new since HEAD~1"]
    with pytest.raises(RequestError, match="--against HEAD~1: no run of 'toy' is in both revisions"):
        revision_items(ran.revision, (other,), ran.matrix, {"one": "a", "two": "b"})


@pytest.mark.slow
def test_a_process_elsewhere_checks_the_revision_out_itself(ran: Ran) -> None:
    """And leaves nothing behind; the folder of the command is gone here."""
    assert not ran.revision.tree.exists()
    work = TrainWork(ran.request, cached=False, revision=ran.revision)
    (event,) = [event for event in work.run([ran.items[-1]], 0) if isinstance(event, Finished)]
    work.close()
    row = msgspec.json.decode(event.rows[0], type=TrainedRun)
    assert (row.apart, row.error) == (ran.rows["two@HEAD~1"].apart, None)
    listed = subprocess.run(
        ["git", "-C", ran.request.tree, "worktree", "list"], check=True, capture_output=True, text=True
    )
    assert len(listed.stdout.splitlines()) == 1


@pytest.mark.slow
def test_a_crash_and_a_hang_there_cost_one_comparison_each(tmp_path: Path) -> None:
    """Today's runs are whole, the others are compared, and the exit code is 3."""
    sleeps = "__import__('time').sleep(100_000) if config.name == 'four' else None"
    tree = write_model(tmp_path, f"(os.abort() if config.name == 'two' else None, {sleeps})")
    commit(tree)
    git(tree, "tag", "planted")
    write_model(tree)
    file = tmp_path / "train.json"
    words = ("train", "--matrix", "toy", "--steps", str(STEPS), "--root", tree, "--json", file)
    ended = samebits(*words, "--workers", "2", "--timeout", "25", "--against", "planted")
    assert ended.code == 3, ended.out + ended.err
    document = json.loads(file.read_text())
    assert [run["config"] for run in document["results"]] == ["one", "two", "four", "twin"]
    compared = [(pairing["a"], pairing["verdict"]) for pairing in document["comparisons"] if "@" in pairing["a"]]
    assert compared == [("one@planted", "bitwise"), ("twin@planted", "bitwise")]
    problems = {problem["pair"]: problem["message"] for problem in document["problems"]}
    assert problems.keys() == {"two@planted", "four@planted"}
    assert "SIGABRT" in problems["two@planted"] and "more than 25 s" in problems["four@planted"]
    assert all(f"--root {tree} --against planted" in message for message in problems.values())


@pytest.mark.slow
def test_a_killed_comparison_goes_on(tmp_path: Path) -> None:
    """The revision lies in another folder then, and what the journal holds is not run again."""
    tree = write_planted(tmp_path, WAITS)
    commit(tree)
    resumed, whole, _ = killed_and_resumed(tree, "train", "--matrix", "toy", "--steps", str(STEPS), "--against", "HEAD")
    assert "resumed: 1 items are in the journal of the interrupted run" in resumed["notes"]
    assert resumed["comparisons"] == whole["comparisons"] and len(whole["comparisons"]) == 5
    assert [run["steps"] for run in resumed["results"]] == [run["steps"] for run in whole["results"]]
