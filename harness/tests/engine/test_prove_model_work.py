"""The steps of `samebits prove model` as work: any process proves any step, and a crash costs one step."""

import json
import pickle
from pathlib import Path
from typing import Any

import msgspec
import pytest

from samebits.engine.model_work import ProvedStep, ProveModelWork, step_items
from samebits.engine.work import Finished, Item, ProcessExit, Reached
from samebits.train.prove_request import ProveRequest
from samebits.train.prove_step import StepProver
from samebits.train.request import load_model
from tests.support.invoke import samebits
from tests.support.planted_model import ABORTS_AND_SLEEPS, MATRIX, WAITS, killed_and_resumed, write_planted

REQUEST = ProveRequest(matrix="toy")


def _items(tree: Path, request: ProveRequest = REQUEST) -> list[Item]:
    return step_items(load_model(tree), tree, request)


def _untimed(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**row, "seconds": 0, "replay": ""} for row in rows]


def test_steps_of_any_process_are_those_of_one(tmp_path: Path) -> None:
    """After pickling; leaves, bounds and seeds are those of the prover, and the stages are named as they begin."""
    tree = write_planted(tmp_path)
    items = _items(tree)
    assert [item.group for item in items].count(items[0].group) == 2, "one reference for two modes, not for a seed"
    work = pickle.loads(pickle.dumps(ProveModelWork(tree, REQUEST)))
    events = list(work.run(items, 0))
    work.close()
    rows = [msgspec.json.decode(event.rows[0], type=ProvedStep) for event in events if isinstance(event, Finished)]
    prover = StepProver(load_model(tree), tree)
    for row, config in zip(rows, MATRIX.runs, strict=True):
        own = [msgspec.to_builtins(leaf) for leaf in prover.prove(config)]
        assert _untimed([msgspec.to_builtins(leaf) for leaf in row.leaves]) == _untimed(own)
        assert {leaf.verdict for leaf in row.leaves} == {"rounding"}
    stages = [event.stage for event in events if isinstance(event, Reached) and event.key == items[0].key]
    assert stages[:2] == ["loading the model", "tracing its step"] and stages[-1] == "interpreting its step"


def test_a_step_that_does_not_trace_is_an_error_of_its_own(tmp_path: Path) -> None:
    """And the steps after it are proved."""
    tree = write_planted(tmp_path, "1 / (config.name != 'one')")
    work = ProveModelWork(tree, REQUEST)
    rows = [
        msgspec.json.decode(event.rows[0], type=ProvedStep)
        for event in work.run(_items(tree)[:2], 0)
        if isinstance(event, Finished)
    ]
    work.close()
    assert "ZeroDivisionError" in str(rows[0].error) and rows[0].exit_code and not rows[0].leaves
    assert rows[1].error is None and rows[1].leaves


def test_a_lost_step_is_undecided(tmp_path: Path) -> None:
    """With the signal, the stage, and the command that proves it again; never as proved."""
    tree = write_planted(tmp_path)
    item = _items(tree)[1]
    row = ProveModelWork(tree, REQUEST).lost(item, ProcessExit(kind="signal", text="SIGSEGV"), "tracing its step")
    (leaf,) = row.leaves
    assert (leaf.config, leaf.mesh, leaf.shard_mode, leaf.leaf) == ("two", "data2", "explicit", "*")
    assert (leaf.verdict, leaf.reason) == ("error", "its process ended while tracing its step: SIGSEGV")
    assert leaf.replay == f"samebits prove model --config toy/two --root {tree}"


def test_steps_of_one_configuration_on_two_meshes_are_two_items(tmp_path: Path) -> None:
    """A configuration that fails on one mesh is proved on the other."""
    items = _items(write_planted(tmp_path), ProveRequest(config="toy/one", meshes=("data2", "data4")))
    assert len({item.key for item in items}) == 2 == len({item.pair for item in items})


@pytest.mark.slow
def test_a_crash_and_a_hang_cost_one_step_each(tmp_path: Path) -> None:
    """Two undecided steps, exit code 3, and the step beside them as one process proves it."""
    tree = write_planted(tmp_path, ABORTS_AND_SLEEPS)
    words = ("prove", "model", "--root", tree, "--json")
    ended = samebits(*words, tmp_path / "all.json", "--matrix", "toy", "--workers", "2", "--timeout", "12")
    assert ended.code == 3, ended.out + ended.err
    rows = json.loads((tmp_path / "all.json").read_text())["results"]
    lost = {row["config"]: row["reason"] for row in rows if row["verdict"] == "error"}
    assert lost.keys() == {"two", "three"}
    assert lost["two"].startswith("its process ended while tracing its step: SIGABRT; it was at "), lost
    assert lost["three"].startswith("its process ended while tracing its step: more than 12 s; it was at "), lost
    assert "SIGABRT" in ended.out and "next: samebits prove model --config toy/" in ended.out
    assert samebits(*words, tmp_path / "one.json", "--config", "toy/one", "--in-process").code == 0
    one = json.loads((tmp_path / "one.json").read_text())["results"]
    assert _untimed(one) == _untimed([row for row in rows if row["config"] == "one"])


@pytest.mark.slow
def test_a_killed_proof_goes_on(tmp_path: Path) -> None:
    """Its document is the one of an undisturbed run, and the first step is not proved again."""
    resumed, whole, said = killed_and_resumed(write_planted(tmp_path, WAITS), "prove", "model", "--matrix", "toy")
    assert "resumed: 1 items are in the journal" in said
    assert _untimed(resumed["results"]) == _untimed(whole["results"])
    assert [row["replay"] for row in resumed["results"]] == [row["replay"] for row in whole["results"]]
    assert resumed["problems"] == whole["problems"] == []
