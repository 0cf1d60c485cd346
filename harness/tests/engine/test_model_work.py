"""Steps of models and runs of goldens as work: any process does any of them, and a crash costs one."""

import json
import pickle
from pathlib import Path
from typing import Any

import msgspec
import pytest

from samebits.compile.devices import compiler_version
from samebits.engine.model_work import (
    CompiledModelStep,
    CompileModelWork,
    GoldenWork,
    ProvedStep,
    ProveModelWork,
    golden_items,
    model_step_items,
    step_items,
)
from samebits.engine.work import Event, Finished, Item, ProcessExit, Reached, Started, Trouble
from samebits.schema.target import Target
from samebits.train.compile_step import compile_step
from samebits.train.golden.check import CheckedGolden
from samebits.train.prove_request import ProveRequest
from samebits.train.prove_step import StepProver
from samebits.train.request import load_model
from tests.support.invoke import samebits
from tests.support.planted_model import ABORTS_AND_SLEEPS, MATRIX, WAITS, killed_and_resumed, write_planted
from tests.support.toy_model import write_tree

REQUEST = ProveRequest(matrix="toy")
CPU = Target(name="cpu:2")
COMMANDS: dict[str, tuple[tuple[str, ...], tuple[str, ...], str, str]] = {
    "prove": (("--matrix", "toy"), ("--config", "toy/one", "--in-process"), "tracing", "next: samebits prove model"),
    "compile": (("--no-cache",), ("--no-cache", "--case", "one"), "tracing, lowering and compiling", "2 problems"),
}
"""By the command: the words for all steps and for one, the stage of `ABORTS_AND_SLEEPS`, and the end."""


def _items(tree: Path, request: ProveRequest = REQUEST) -> list[Item]:
    return step_items(load_model(tree), tree, request)


def _events(tree: Path) -> list[Event]:
    work = pickle.loads(pickle.dumps(CompileModelWork(tree, "small", CPU, cached=False)))
    return list(work.run(model_step_items(tree, "small", MATRIX.runs, CPU), 0))


def _rows(events: list[Event]) -> list[CompiledModelStep]:
    return [
        msgspec.json.decode(event.rows[0], type=CompiledModelStep) for event in events if isinstance(event, Finished)
    ]


def _untimed(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {**row, "facts": {**row["facts"], "compile_seconds": 0}}
        if "facts" in row
        else {**row, "seconds": 0, "replay": ""}
        for row in rows
    ]


def test_proofs_of_any_process_are_those_of_one(tmp_path: Path) -> None:
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
def test_programs_of_any_process_are_those_of_one(tmp_path: Path) -> None:
    """After pickling, with all figures."""
    tree = write_planted(tmp_path)
    model = load_model(tree)
    rows = _rows(_events(tree))
    assert [row.config for row in rows] == [config.name for config in MATRIX.runs]
    for row, config in zip(rows, MATRIX.runs, strict=True):
        own = {"config": config.name, "compiler": compiler_version(CPU), "error": None}
        facts = msgspec.to_builtins(compile_step(model, config, tree, CPU, None))
        assert _untimed([msgspec.to_builtins(row)]) == _untimed([{**own, "facts": facts}])


def test_a_step_that_does_not_compile_is_an_error_of_its_own(tmp_path: Path) -> None:
    """And the steps after it are compiled."""
    events = _events(write_planted(tmp_path, "1 / (config.name != 'one')"))
    problems = {event.pair: event.message for event in events if isinstance(event, Trouble)}
    problems |= {row.config: row.error.message for row in _rows(events) if row.error is not None}
    assert problems.keys() == {"one"} and "ZeroDivisionError" in problems["one"]
    assert [row.config for row in _rows(events) if row.facts is not None] == ["two", "three"]


def test_a_lost_step_has_no_figures(tmp_path: Path) -> None:
    """But the signal, the stage, and the command that compiles it again."""
    item = model_step_items(tmp_path, "small", MATRIX.runs, CPU)[1]
    row = CompileModelWork(tmp_path, "small", CPU, cached=False).lost(
        item, ProcessExit(kind="signal", text="SIGSEGV"), "compiling"
    )
    assert row.facts is None and row.error is not None and row.error.exit_code == 3
    assert row.error.message == (
        "config 'two': its process ended while compiling: SIGSEGV; again: "
        f"samebits compile model --preset small --target cpu:2 --case two --root {tmp_path}"
    )


def test_a_run_is_compared_with_its_golden(tmp_path: Path) -> None:
    """Wherever it is sent; here there is none, which its row says."""
    root = write_tree(tmp_path)
    work = pickle.loads(pickle.dumps(GoldenWork(root)))
    started, reached, end = work.run(golden_items(root, ["toy/one"]), 0)
    assert isinstance(started, Started) and isinstance(reached, Reached) and isinstance(end, Finished)
    row = msgspec.json.decode(end.rows[0], type=CheckedGolden)
    assert (row.name, row.status) == ("toy/one", "missing")


def test_a_configuration_that_is_gone_is_trouble(tmp_path: Path) -> None:
    """As where the model was edited while the command ran."""
    root = write_tree(tmp_path)
    (trouble,) = [
        event for event in GoldenWork(root).run(golden_items(root, ["gone"]), 0) if isinstance(event, Trouble)
    ]
    assert trouble.pair == "gone"


def test_a_lost_run_was_not_made() -> None:
    """Exit code 3, with the command that makes it."""
    item = golden_items(Path("/elsewhere"), ["toy/one"])[0]
    row = GoldenWork(Path("/elsewhere")).lost(item, ProcessExit(kind="signal", text="SIGSEGV"), "running it")
    assert (row.status, row.exit_code) == ("not run", 3)
    assert "its process ended while running it: SIGSEGV; again: samebits golden check --config toy/one" in row.message


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_a_crash_and_a_hang_cost_one_step_each(command: str, tmp_path: Path) -> None:
    """Two steps that are undecided, exit code 3, and the step beside them as one process has it."""
    every, one, stage, end = COMMANDS[command]
    words = (command, "model", "--root", write_planted(tmp_path, ABORTS_AND_SLEEPS), "--json")
    ended = samebits(*words, tmp_path / "all.json", *every, "--workers", "2", "--timeout", "12")
    assert ended.code == 3, ended.out + ended.err
    document = json.loads((tmp_path / "all.json").read_text())
    lost = {row["config"]: row["reason"] for row in document["results"] if row.get("verdict") == "error"}
    for problem in document["problems"]:
        lost[problem["pair"]] = problem["message"].removeprefix(f"config '{problem['pair']}': ")
    assert lost.keys() == {"two", "three"}
    for name, how in (("two", "SIGABRT"), ("three", "more than 12 s")):
        assert lost[name].startswith(f"its process ended while {stage} its step: {how}; it was at "), lost
    assert "SIGABRT" in ended.out + ended.err and end in ended.out
    assert samebits(*words, tmp_path / "one.json", *one).code == 0
    alone = json.loads((tmp_path / "one.json").read_text())["results"]
    assert alone and _untimed(alone) == _untimed([row for row in document["results"] if row["config"] == "one"])


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_a_killed_command_goes_on(command: str, tmp_path: Path) -> None:
    """Its document is the one of an undisturbed run, and the first step is not done again."""
    resumed, whole, said = killed_and_resumed(write_planted(tmp_path, WAITS), command, "model", *COMMANDS[command][0])
    assert "resumed: 1 items are in the journal" in said
    assert _untimed(resumed["results"]) == _untimed(whole["results"])
    assert {row["config"] for row in whole["results"]} == {"one", "two", "three"}
    assert [row.get("replay") for row in resumed["results"]] == [row.get("replay") for row in whole["results"]]
    assert resumed["problems"] == whole["problems"] == []
