"""The runs of `samebits train` as work: any process runs any configuration, and the comparisons are the same."""

import json
import math
import pickle
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from samebits.engine.train_work import TrainedRun, TrainWork, assembled, train_items
from samebits.engine.work import Finished, Item, ProcessExit
from samebits.errors import CouldNotRun
from samebits.schema.model import Config, Matrix
from samebits.train.matrix import run_matrix
from samebits.train.request import TrainRequest, select
from tests.support.invoke import samebits
from tests.support.toy_model import git, write_tree

INIT = '''"""A model for tests."""

import os
from dataclasses import replace
from pathlib import Path

from tests.engine.test_train_work import MATRIX
from tests.support.toy_model import toy

HONEST = toy(Path(__file__).parent, matrix=MATRIX)


def build(config, parts):
    {planted}
    return HONEST.build(config, parts)


MODEL = replace(HONEST, build=build)
'''
MATRIX = Matrix(
    name="toy",
    about="one device and two",
    runs=(
        Config(name="one", mesh="data1"),
        Config(name="two", mesh="data2"),
        Config(name="four", mesh="data4"),
        Config(name="twin", mesh="data2", shard_mode="explicit"),
    ),
    twins=(("two", "twin"),),
)
STEPS = 3


def write_model(root: Path, planted: str = "pass") -> Path:
    """A tree with the model of four runs; the line runs where a configuration `config` is built."""
    write_tree(root)
    (root / "suites" / "model" / "__init__.py").write_text(INIT.format(planted=planted))
    return root


def _rows(request: TrainRequest, items: Sequence[Item]) -> dict[str, TrainedRun]:
    """The rows of items in a process of its own, as far as the work can tell."""
    work = pickle.loads(pickle.dumps(TrainWork(request, cached=False)))
    finished = [event for event in work.run(items, 0) if isinstance(event, Finished)]
    work.close()
    return {event.key: msgspec.json.decode(event.rows[0], type=TrainedRun) for event in finished}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with four runs, two of which are twins."""
    return write_model(tmp_path_factory.mktemp("train"))


@pytest.fixture(scope="module")
def rows(tree: Path) -> dict[str, TrainedRun]:
    """The rows of all runs and of the twins, each of another process."""
    request = TrainRequest(matrix="toy", steps=STEPS, root=tree)
    items = train_items(request, MATRIX)
    assert [item.key for item in items] == ["one", "two", "twin", "two and twin", "four"]
    assert {item.group for item in items[1:4]} == {"two"}
    return {key: row for item in items for key, row in _rows(request, [item]).items()}


@pytest.mark.slow
def test_runs_in_several_processes_give_the_matrix_of_one(tree: Path, rows: dict[str, TrainedRun]) -> None:
    """The bits of every run, the envelope, and every comparison with its distances."""
    model, matrix = select(TrainRequest(matrix="toy", steps=STEPS, root=tree))
    whole = run_matrix(model, matrix, tree, STEPS)
    parts = assembled(matrix, tree, rows, 1.0)
    assert [run.run.bits for run in parts.runs.values()] == [run.run.bits for run in whole.runs.values()]
    assert list(parts.runs) == list(whole.runs) == ["one", "two", "four", "twin"]
    assert parts.comparisons == whole.comparisons and len(whole.comparisons) == 3
    assert (parts.envelope, parts.clusters, parts.problems) == (whole.envelope, whole.clusters, [])


def test_a_lost_run_is_a_problem_and_the_others_are_compared(tree: Path, rows: dict[str, TrainedRun]) -> None:
    """Without the first run there is nothing to compare with."""
    request = TrainRequest(matrix="toy", steps=STEPS, root=tree)
    items = {item.key: item for item in train_items(request, MATRIX)}
    work = TrainWork(request, cached=False)
    lost = {
        name: work.lost(items[name], ProcessExit(kind="signal", text="SIGSEGV"), "running it")
        for name in ("one", "two")
    }
    parts = assembled(MATRIX, tree, {**rows, "two": lost["two"]}, 1.0)
    assert [(pairing.a, pairing.b) for pairing in parts.comparisons] == [("one", "four")]
    (problem,) = parts.problems
    again = f"samebits train --config toy/two --steps {STEPS} --root {tree}"
    assert problem.message == f"config 'two': its process ended while running it: SIGSEGV; again: {again}"
    assert problem.exit_code == 3
    with pytest.raises(CouldNotRun, match="config 'one': its process ended while running it: SIGSEGV"):
        assembled(MATRIX, tree, {**rows, "one": lost["one"]}, 1.0)


def test_another_first_run_in_another_process_is_told(tree: Path, rows: dict[str, TrainedRun]) -> None:
    """Distances from a run that did not repeat its bits say nothing."""
    parts = assembled(MATRIX, tree, {**rows, "four": replace(rows["four"], first_bits="others")}, 1.0)
    (problem,) = parts.problems
    assert "config 'one' does not repeat its own bits: they differ in the process that ran 'four'" in problem.message
    assert "four" not in parts.runs


def test_a_run_that_is_not_finite_is_a_row(tmp_path: Path) -> None:
    """JSON has no NaN."""
    planted = (
        "if config.name == 'two':\n        return toy(Path(__file__).parent, scale=float('nan')).build(config, parts)"
    )
    tree = write_model(tmp_path, planted)
    request = TrainRequest(matrix="toy", steps=STEPS, root=tree)
    items = train_items(request, MATRIX)
    rows = {**_rows(request, items[:2])}
    parts = assembled(MATRIX, tree, rows, 1.0)
    assert math.isnan(parts.runs["two"].run.steps[-1].loss)
    assert [pairing.verdict for pairing in parts.comparisons] == ["different"]


@pytest.mark.slow
def test_a_crash_costs_one_run(tmp_path: Path) -> None:
    """The command reports it, compares the others, and ends with 3."""
    tree = write_model(tmp_path, "os.abort() if config.name == 'two' else None")
    git(tree, "add", "-A")
    words = ("train", "--matrix", "toy", "--steps", str(STEPS), "--root", tree, "--json", tmp_path / "train.json")
    ended = samebits(*words, "--workers", "2")
    assert ended.code == 3, ended.out + ended.err
    document = json.loads((tmp_path / "train.json").read_text())
    assert [run["config"] for run in document["results"]] == ["one", "four", "twin"]
    assert [(pairing["a"], pairing["b"]) for pairing in document["comparisons"]] == [("one", "four")]
    (problem,) = document["problems"]
    assert problem["pair"] == "two" and "SIGABRT" in problem["message"] and "pair 'two': " in ended.err
