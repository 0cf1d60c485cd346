"""`samebits compile --tune` as work: a shape on a target is an item, and so is what its values give at a small size."""

import json
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from samebits.compile.request import CompileRequest
from samebits.compile.tune import TunedCase, tuned_case
from samebits.engine.compile_work import CompileError, TunedValues, TuneWork, tune_items
from samebits.engine.work import Finished, Item, ProcessExit
from samebits.programs.catalogue import Locator, load
from tests.compile.test_tune import HONEST, write
from tests.support.invoke import samebits
from tests.support.planted_model import killed_and_resumed

SHAPES = """
PAIR = dataclasses.replace(PAIR, compiled=tuple(
    dataclasses.replace(real, case=dataclasses.replace(real.case, id=f"rows{rows}", sizes={"rows": rows}))
    for real in PAIR.compiled for rows in (256, 512, 1024)
))
"""
ABORTS = "(__import__('os').abort() if (x.shape[0], tile) == (512, 16) else None)"
SLEEPS = "(__import__('time').sleep(100_000) if (x.shape[0], tile) == (1024, 32) else None)"
WAITS = (
    "(__import__('time').sleep(100_000) if x.shape[0] == 512 and __import__('pathlib').Path(__file__).parents[1]"
    ".joinpath('suites', 'wait').exists() else None)"
)
NOTES = "compile_seconds", "cached"


def write_shapes(root: Path, planted: str = "None") -> Path:
    """A tree whose pair has three production shapes; the expression is evaluated where its variant is traced."""
    suite = write(root, body=f"{planted} or {HONEST}") / "suites" / "test_scaled.py"
    suite.write_text(f"import dataclasses\n{suite.read_text()}{SHAPES}")
    return root


def _rows(items: Sequence[Item], request: CompileRequest, ahead: int = 0) -> dict[str, TunedValues]:
    """The rows of items in a process of its own, as far as the work can tell."""
    work = pickle.loads(pickle.dumps(TuneWork(request, cached=False, threads=1)))
    finished = [event for event in work.run(items, ahead) if isinstance(event, Finished)]
    work.close()
    return {event.key: msgspec.json.decode(event.rows[0], type=TunedValues) for event in finished}


def _items(tree: Path, request: CompileRequest) -> list[Item]:
    locator = Locator(name="scaled", root=str(tree))
    return tune_items([(locator, load(locator))], request)


def _timeless(trials: Any) -> Any:
    """Trials without what compiling took."""
    return [{name: value for name, value in trial.items() if name not in NOTES} for trial in trials]


@pytest.mark.slow
def test_items_one_by_one_give_the_cases_of_one_process(tmp_path: Path) -> None:
    """Each shape is run at its small size once, whatever the number of targets and directions."""
    tree, request = write_shapes(tmp_path), CompileRequest(cases=("rows256",))
    assert [item.key for item in _items(tree, CompileRequest(cases=("rows[25]*",)))] == [
        "scaled/rows256/small",
        "scaled/rows256/cpu:1/forward/0",
        "scaled/rows512/small",
        "scaled/rows512/cpu:1/forward/1",
    ]
    items = _items(tree, request)
    alone = {key: row for item in items for key, row in _rows([item], request).items()}
    together = _rows(items, request, ahead=3)
    cases = [_case(rows, items[1].key, items[0].key) for rows in (alone, together)]
    given = [_timeless(msgspec.to_builtins(case.trials)) for case in cases]
    assert given[0] == given[1] and cases[0].best == cases[1].best
    assert [(trial["value"], trial["equal"]) for trial in given[0]] == [("8", True), ("16", True), ("32", True)]
    assert all(trial["program"] and trial["small"] for trial in given[0])


def _case(rows: dict[str, TunedValues], compiled: str, small: str) -> TunedCase:
    assert not rows[compiled].errors and not rows[small].errors
    return tuned_case(rows[compiled].trials, rows[small].small)


def test_a_lost_item_is_an_error_with_its_replay(tmp_path: Path) -> None:
    """Without the small size, values are compiled and nothing is known of what they give."""
    request = CompileRequest(cases=("rows256",))
    small, compiled = _items(write_shapes(tmp_path), request)
    work = TuneWork(request, cached=False, threads=1)
    messages = [
        work.lost(item, ProcessExit(kind="signal", text="SIGABRT"), "s").errors[0].message for item in (small, compiled)
    ]
    ended, root = "its process ended while s: SIGABRT; again: samebits compile scaled --tune", f"--root {tmp_path}"
    assert messages == [
        f"scaled: values of case rows256 at the small size: {ended} --case rows256 {root}",
        f"scaled: values of case rows256 for cpu:1, forward: {ended} --target cpu:1 --case rows256 "
        f"--direction forward {root}",
    ]
    case = tuned_case(_rows([compiled], request)[compiled.key].trials, ())
    assert {(trial.verdict, trial.equal, trial.small) for trial in case.trials} == {(None, None, "not run")}


def test_what_is_wrong_is_data(tmp_path: Path) -> None:
    """A target that the layout does not fit, and an argument that no side has."""
    suite = write(tmp_path) / "suites" / "test_scaled.py"
    suite.write_text(suite.read_text().replace('"data*"', '"data3_model*"').replace('"cpu:1"', '"cpu:4"'))
    request = CompileRequest()
    small, compiled = _rows(_items(tmp_path, request), request).values()
    assert small == TunedValues()
    (error,) = compiled.errors
    assert error.exit_code == 2 and "case 'real' on cpu:4: " in error.message
    other = write(tmp_path / "other", tune='tune={"tille": (8, 16)}, tune_sizes={"rows": 96},')
    errors = [row.errors for row in _rows(_items(other, request), request).values()]
    assert errors[0] == errors[1] and isinstance(errors[0][0], CompileError)
    assert "tune names 'tille', not a static argument of plain" in errors[0][0].message


@pytest.mark.slow
def test_a_crash_and_a_hang_cost_one_shape_each(tmp_path: Path) -> None:
    """The other shape is compiled, what values give is known, and the exit code is 3."""
    tree, file = write_shapes(tmp_path, f"{ABORTS} or {SLEEPS}"), tmp_path / "tuned.json"
    words = ("compile", "scaled", "--tune", "--no-cache", "--root", tree, "--json", file)
    ended = samebits(*words, "--workers", "2", "--timeout", "25")
    assert ended.code == 3, ended.out + ended.err
    document = json.loads(file.read_text())
    assert [(trial["case"], trial["value"], trial["equal"]) for trial in document["trials"]] == [
        ("rows256", value, True) for value in ("8", "16", "32")
    ]
    first, second = document["problems"]
    assert "case rows512 for cpu:1, forward: its process ended while tracing and lowering" in first["message"]
    assert "SIGABRT" in first["message"] and "more than 25 s" in second["message"]
    assert "again: samebits compile scaled --tune --target cpu:1 --case rows1024 --direction" in second["message"]
    write_shapes(tmp_path)
    whole = samebits(*words, "--in-process")
    assert whole.code == 0, whole.err
    honest = [trial for trial in json.loads(file.read_text())["trials"] if trial["case"] == "rows256"]
    assert _timeless(honest) == _timeless(document["trials"])


@pytest.mark.slow
def test_a_killed_tuning_goes_on(tmp_path: Path) -> None:
    """What the journal holds is not run again, and the document is that of an undisturbed run."""
    tree = write_shapes(tmp_path, WAITS)
    resumed, whole, said = killed_and_resumed(
        tree, "compile", "scaled", "--tune", "--no-cache", entries=2, flag="suites/wait"
    )
    assert any(note.startswith("resumed: ") for note in resumed["notes"]), said
    assert _timeless(resumed["trials"]) == _timeless(whole["trials"]) and len(whole["trials"]) == 9
    assert resumed["best"] == whole["best"]
