"""The steps of `samebits compile model` as work: any process compiles any run, and a crash costs one run."""

import json
import pickle
from pathlib import Path
from typing import Any

import msgspec
import pytest

from samebits.compile.devices import compiler_version
from samebits.engine.model_work import CompiledModelStep, CompileModelWork, model_step_items
from samebits.engine.work import Event, Finished, ProcessExit, Trouble
from samebits.schema.target import Target
from samebits.train.compile_step import compile_step
from samebits.train.request import load_model
from tests.support.invoke import samebits
from tests.support.planted_model import ABORTS_AND_SLEEPS, MATRIX, WAITS, killed_and_resumed, write_planted

CPU = Target(name="cpu:2")


def _events(tree: Path) -> list[Event]:
    work = pickle.loads(pickle.dumps(CompileModelWork(tree, "small", CPU, cached=False)))
    return list(work.run(model_step_items(tree, "small", MATRIX.runs, CPU), 0))


def _rows(events: list[Event]) -> list[CompiledModelStep]:
    return [
        msgspec.json.decode(event.rows[0], type=CompiledModelStep) for event in events if isinstance(event, Finished)
    ]


def _untimed(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**row, "facts": {**row["facts"], "compile_seconds": 0}} for row in rows]


@pytest.mark.slow
def test_steps_of_any_process_are_those_of_one(tmp_path: Path) -> None:
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


@pytest.mark.slow
def test_a_crash_and_a_hang_cost_one_step_each(tmp_path: Path) -> None:
    """Two problems, exit code 3, and the step beside them as one process compiles it."""
    tree = write_planted(tmp_path, ABORTS_AND_SLEEPS)
    words = ("compile", "model", "--root", tree, "--no-cache", "--json")
    ended = samebits(*words, tmp_path / "all.json", "--workers", "2", "--timeout", "12")
    assert ended.code == 3, ended.out + ended.err
    document = json.loads((tmp_path / "all.json").read_text())
    lost = {problem["pair"]: problem["message"] for problem in document["problems"]}
    assert lost.keys() == {"two", "three"}
    begin = "its process ended while tracing, lowering and compiling its step: "
    assert lost["two"].startswith(f"config 'two': {begin}SIGABRT; it was at "), lost
    assert lost["three"].startswith(f"config 'three': {begin}more than 12 s; it was at "), lost
    assert samebits(*words, tmp_path / "one.json", "--case", "one").code == 0
    one = json.loads((tmp_path / "one.json").read_text())["results"]
    assert _untimed(one) == _untimed(document["results"]) and len(one) == 1


@pytest.mark.slow
def test_a_killed_command_goes_on(tmp_path: Path) -> None:
    """Its document is the one of an undisturbed run."""
    resumed, whole, said = killed_and_resumed(write_planted(tmp_path, WAITS), "compile", "model", "--no-cache")
    assert "resumed: 1 items are in the journal" in said
    assert _untimed(resumed["results"]) == _untimed(whole["results"]) and len(whole["results"]) == 3
    assert resumed["problems"] == whole["problems"] == []
