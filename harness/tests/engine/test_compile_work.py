"""The programs of `samebits compile` as work: any process compiles any case, and a crash costs one case."""

import json
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from samebits.compile.pair import Compiler, compile_pair
from samebits.compile.request import CompileOption, CompileRequest
from samebits.engine.compile_work import CompiledPrograms, CompileWork, compile_items
from samebits.engine.work import Finished, ProcessExit, Trouble
from samebits.programs.catalogue import Locator, load
from samebits.schema.program_facts import CompiledSide
from samebits.schema.target import Target
from tests.support.invoke import samebits
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
