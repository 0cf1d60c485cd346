"""The programs of `samebits compile` and the values it tries as work: in any process, and a crash costs one."""

import json
import pickle
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from samebits.compile.pair import Compiler, compile_pair
from samebits.compile.request import CompileOption, CompileRequest
from samebits.compile.tune import TunedCase, tuned_case
from samebits.engine.compile_work import (
    CompiledPrograms,
    CompileError,
    CompileWork,
    TunedValues,
    TuneWork,
    compile_items,
    tune_items,
)
from samebits.engine.work import Finished, Item, ProcessExit, Trouble
from samebits.programs.catalogue import Locator, load
from samebits.schema.program_facts import CompiledSide
from samebits.schema.target import Target
from tests.compile.test_tune import HONEST, write
from tests.support.invoke import samebits
from tests.support.planted_model import killed_and_resumed
from tests.support.real_tree import OPTIMIZED, write_real_pair

ABORTS = OPTIMIZED.replace("def turned(x):\n", "def turned(x):\n        __import__('os').abort()\n")
TWO = CompileRequest(targets=(Target(name="cpu:8"), Target(name="cpu:4")), sides=("turned", "quarter"))


def _rows(work: CompileWork, items: Any, ahead: int = 0) -> list[CompiledPrograms]:
    finished = [event for event in work.run(items, ahead) if isinstance(event, Finished)]
    return [msgspec.json.decode(row, type=CompiledPrograms) for event in finished for row in event.rows]


def _timeless(programs: Any) -> list[CompiledSide]:
    return [replace(program, compile_seconds=0.0, cached=False) for program in programs]


@pytest.mark.slow
def test_cases_one_by_one_give_the_document_of_the_whole_pair(tmp_path: Path) -> None:
    """Programs, comparisons and claims, after pickling; and where tracing runs ahead."""
    locator = Locator(
        name="reorder", root=str(write_real_pair(tmp_path, claims=('variant="turned", shows=VARIANT.gathers == 0',)))
    )
    pair = load(locator)
    compiler = Compiler(None, 1)
    whole = [case for case in compile_pair(pair, locator, TWO, compiler) if case.programs]
    compiler.close()
    items = compile_items([(locator, pair)], TWO)
    assert [item.key for item in items] == [
        f"reorder/real/{target}/{direction}/{number}"
        for number, (target, direction) in enumerate(
            (target, direction) for target in ("cpu:8", "cpu:4") for direction in ("forward", "gradient")
        )
    ]
    work = pickle.loads(pickle.dumps(CompileWork(TWO, cached=False, threads=1)))
    alone = [row for item in items for row in _rows(work, [item])]
    work.close()
    assert [_timeless(row.programs) for row in alone] == [_timeless(case.programs) for case in whole]
    own, comparisons = [row.comparisons for row in alone], [case.comparisons for case in whole]
    assert msgspec.json.encode(own) == msgspec.json.encode(comparisons)
    ahead = _rows(work, items, ahead=2)
    work.close()
    assert [_timeless(row.programs) for row in ahead] == [_timeless(row.programs) for row in alone]


def test_what_does_not_compile_is_data(tmp_path: Path) -> None:
    """A target that the layout does not fit, and an option that the compiler does not know; the others go on."""
    locator = Locator(name="reorder", root=str(write_real_pair(tmp_path, layout="data3_model*")))
    request = replace(TWO, directions=("forward",), options=(CompileOption.parse("no_such=1"),))
    work = CompileWork(request, cached=False, threads=1)
    rows = _rows(work, compile_items([(locator, load(locator))], request))
    work.close()
    assert [(len(row.programs), {error.exit_code for error in row.errors}) for row in rows] == [(0, {2}), (0, {2})]
    assert "case 'real' on cpu:8: " in rows[0].errors[0].message


def test_a_pair_without_a_declaration_is_trouble(tmp_path: Path) -> None:
    """As where its file was changed while the command ran."""
    locator = Locator(name="reorder", root=str(write_real_pair(tmp_path)))
    items = compile_items([(locator, load(locator))], TWO)
    gone = [replace(item, payload=(Locator(name="gone", root=str(tmp_path)), item.payload[1])) for item in items]
    work = CompileWork(TWO, cached=False, threads=1)
    (trouble,) = [event for event in work.run(gone, 0) if isinstance(event, Trouble)]
    work.close()
    assert trouble.exit_code == 2 and "pair 'gone' is unknown" in trouble.message


def test_a_lost_case_is_an_error_of_its_pair(tmp_path: Path) -> None:
    """With the signal, the stage and the command."""
    locator = Locator(name="reorder", root=str(write_real_pair(tmp_path)))
    item = compile_items([(locator, load(locator))], TWO)[1]
    row = CompileWork(TWO, cached=False, threads=1).lost(item, ProcessExit(kind="signal", text="SIGSEGV"), "compiling")
    (error,) = row.errors
    assert error.exit_code == 3
    assert error.message.startswith(
        "reorder: case real for cpu:8, gradient: its process ended while compiling: SIGSEGV"
    )
    assert "again: samebits compile reorder --target cpu:8 --case real --direction gradient --variant" in error.message


@pytest.mark.slow
def test_a_crash_costs_the_cases_of_its_pair(tmp_path: Path) -> None:
    """The other pair is compiled, and the crash is a problem with exit code 3."""
    write_real_pair(tmp_path, "crashes", optimized=ABORTS)
    write_real_pair(tmp_path)
    words = ("compile", "--root", tmp_path, "--no-cache", "--direction", "forward", "--variant", "turned", "--json")
    ended = samebits(*words, tmp_path / "two.json", "--workers", "2")
    assert ended.code == 3, ended.err
    document = json.loads((tmp_path / "two.json").read_text())
    assert [(program["pair"], program["side"]) for program in document["results"]] == [
        ("reorder", "gather"),
        ("reorder", "turned"),
    ]
    (problem,) = document["problems"]
    assert problem["pair"] == "crashes" and "SIGABRT" in problem["message"]
    assert samebits(*words, tmp_path / "one.json", "reorder").code == 0
    here = json.loads((tmp_path / "one.json").read_text())
    assert here["comparisons"] == document["comparisons"]
    assert [{**program, "compile_seconds": 0} for program in here["results"]] == [
        {**program, "compile_seconds": 0} for program in document["results"]
    ]


SHAPES = """
PAIR = dataclasses.replace(PAIR, compiled=tuple(
    dataclasses.replace(real, case=dataclasses.replace(real.case, id=f"rows{rows}", sizes={"rows": rows}))
    for real in PAIR.compiled for rows in (256, 512, 1024)
))
"""
ABORTS_AT_512 = "(__import__('os').abort() if (x.shape[0], tile) == (512, 16) else None)"
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


def _tuned(items: Sequence[Item], request: CompileRequest, ahead: int = 0) -> dict[str, TunedValues]:
    """The rows of items in a process of its own, as far as the work can tell."""
    work = pickle.loads(pickle.dumps(TuneWork(request, cached=False, threads=1)))
    finished = [event for event in work.run(items, ahead) if isinstance(event, Finished)]
    work.close()
    return {event.key: msgspec.json.decode(event.rows[0], type=TunedValues) for event in finished}


def _items(tree: Path, request: CompileRequest) -> list[Item]:
    locator = Locator(name="scaled", root=str(tree))
    return tune_items([(locator, load(locator))], request)


def _without_times(trials: Any) -> Any:
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
    alone = {key: row for item in items for key, row in _tuned([item], request).items()}
    together = _tuned(items, request, ahead=3)
    cases = [_case(rows, items[1].key, items[0].key) for rows in (alone, together)]
    given = [_without_times(msgspec.to_builtins(case.trials)) for case in cases]
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
    case = tuned_case(_tuned([compiled], request)[compiled.key].trials, ())
    assert {(trial.verdict, trial.equal, trial.small) for trial in case.trials} == {(None, None, "not run")}


def test_what_is_wrong_is_data(tmp_path: Path) -> None:
    """A target that the layout does not fit, and an argument that no side has."""
    suite = write(tmp_path) / "suites" / "test_scaled.py"
    suite.write_text(suite.read_text().replace('"data*"', '"data3_model*"').replace('"cpu:1"', '"cpu:4"'))
    request = CompileRequest()
    small, compiled = _tuned(_items(tmp_path, request), request).values()
    assert small == TunedValues()
    (error,) = compiled.errors
    assert error.exit_code == 2 and "case 'real' on cpu:4: " in error.message
    other = write(tmp_path / "other", tune='tune={"tille": (8, 16)}, tune_sizes={"rows": 96},')
    errors = [row.errors for row in _tuned(_items(other, request), request).values()]
    assert errors[0] == errors[1] and isinstance(errors[0][0], CompileError)
    assert "tune names 'tille', not a static argument of plain" in errors[0][0].message


@pytest.mark.slow
def test_a_crash_and_a_hang_cost_one_shape_each(tmp_path: Path) -> None:
    """The other shape is compiled, what values give is known, and the exit code is 3."""
    tree, file = write_shapes(tmp_path, f"{ABORTS_AT_512} or {SLEEPS}"), tmp_path / "tuned.json"
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
    assert _without_times(honest) == _without_times(document["trials"])


@pytest.mark.slow
def test_a_killed_tuning_goes_on(tmp_path: Path) -> None:
    """What the journal holds is not run again, and the document is that of an undisturbed run."""
    tree = write_shapes(tmp_path, WAITS)
    resumed, whole, said = killed_and_resumed(
        tree, "compile", "scaled", "--tune", "--no-cache", entries=2, flag="suites/wait"
    )
    assert any(note.startswith("resumed: ") for note in resumed["notes"]), said
    assert _without_times(resumed["trials"]) == _without_times(whole["trials"]) and len(whole["trials"]) == 9
    assert resumed["best"] == whole["best"]
