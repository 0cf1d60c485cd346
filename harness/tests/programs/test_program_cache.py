"""Compiled programs are shared where they are the same, by key and by text; emulated dtypes are read from them."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from samebits.check.run_points import run_points
from samebits.errors import CouldNotRun, DeclarationError
from samebits.programs import program_cache
from samebits.programs import program_cache as machine_code
from samebits.programs.catalogue import Locator
from samebits.programs.plan import Request, plan
from samebits.programs.program_cache import CompileSetup, Program, Programs
from samebits.schema.case import Arg, Case
from tests.support.toys import alone, of, run, toy, twice

MAPPINGS = Path("/proc/self/maps")


@pytest.fixture
def programs() -> Iterator[Programs]:
    store = Programs(threads=2)
    yield store
    store.close()


def count(pair: Any, programs: Programs) -> int:
    """Compilations that a pair's whole product takes."""
    points = plan(pair, Request(full=True), devices=8).points
    before = programs.compilations
    assert all(result.ruling.ok for result in run_points(pair, Locator(name=pair.name), points, programs))
    return programs.compilations - before


def test_cases_that_differ_only_in_values_share_programs(programs: Programs) -> None:
    pair = toy()
    one = count(pair, programs)
    more = tuple(dataclasses.replace(pair.cases[0], id=name) for name in ("small", "other", "third"))
    programs.forget("toy")
    assert count(dataclasses.replace(pair, cases=more), programs) == one


def test_programs_with_the_same_text_are_compiled_once(programs: Programs) -> None:
    """`also` traces to the text of `twice`: two functions, one compilation."""

    def also(x: Any, *, factor: float = 2.0) -> Any:
        return twice(x, factor=factor)

    both = count(toy(twice=twice, also=also), programs)
    programs.forget("toy")
    assert count(toy(twice=twice), programs) == both


def test_a_side_that_reads_another_argument_is_another_program() -> None:
    """Jit can drop unused arguments and number the rest anew: then both sides have one text, and would run as one."""

    def of_x(x: Any, y: Any) -> Any:
        return jnp.linalg.qr(x)[0]  # no rule of the interpreter covers it, so only the bits can tell

    def of_y(x: Any, y: Any) -> Any:
        return jnp.linalg.qr(y)[0]

    args = {name: Arg(shape=("rows", "columns"), spec=("data",)) for name in ("x", "y")}
    case = Case(id="small", sizes={"rows": 8, "columns": 4})
    results = run(toy(of_x, of_y=of_y), alone("of_y"), args=args, cases=(case,), meshes=("data1",))
    assert [one.ruling.verdict for one in results] == ["different"]


def test_other_sizes_are_other_programs(programs: Programs) -> None:
    pair = dataclasses.replace(toy(), gradients=False)
    one = count(pair, programs)
    larger = Case(id="large", sizes={"rows": 16, "columns": 16}, statics={"factor": 4.0})
    assert count(dataclasses.replace(pair, cases=(pair.cases[0], larger)), programs) == one


def test_an_error_while_tracing_is_kept_until_it_is_asked_for(programs: Programs) -> None:
    def make() -> Any:
        raise ValueError("first line\nsecond line")

    program = programs.start(programs.trace("key", "toy:", CompileSetup(), make))
    line = make.__code__.co_firstlineno + 1
    said = rf"^toy: raised ValueError: first line \(.*test_program_cache.py:{line}\); 1 more line with --traceback$"
    with pytest.raises(CouldNotRun, match=said):
        program.result()


def test_an_emulation_shows_in_the_results() -> None:
    """The name is read from the compiled program, not from what a declaration claims."""

    def emulating(x: Any, *, factor: float = 2.0) -> Any:
        with jax.named_scope("emulated_ragged_all_to_all"):
            return x * factor

    results = run(toy(emulating=emulating), args={"x": Arg(shape=("rows", "columns"), spec=("data",))})
    assert {r.run.emulated for r in of(results, variant="emulating", direction="forward")} == {("ragged_all_to_all",)}
    assert {r.run.emulated for r in of(results, variant="double")} == {()}


@pytest.fixture
def crowded(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if there were too much machine code whenever a program is added."""
    monkeypatch.setattr(machine_code, "is_crowded", lambda: True)
    monkeypatch.setattr(program_cache, "EVERY", 1)


@pytest.mark.usefixtures("crowded")
def test_a_program_without_machine_code_is_compiled_again(programs: Programs) -> None:
    def started(name: str, add: int) -> Program:
        program = programs.start(
            programs.trace(("toy", name), "toy", CompileSetup(), lambda: (lambda x: x + add, types()))
        )
        program.result()
        return program

    first, second = started("f", 1), started("g", 2)
    assert has_code(first), "of one program, nothing is freed"
    started("h", 3)
    assert not has_code(first) and has_code(second) and programs.compilations == 3
    assert first.result()(jax.numpy.zeros(2)).tolist() == [1, 1] and programs.compilations == 4
    assert started("f", 1) is first and programs.compilations == 4


@pytest.mark.usefixtures("crowded")
def test_verdicts_are_the_same_where_machine_code_is_freed() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(machine_code, "is_crowded", lambda: False)
        usual = run(toy())
    assert [dataclasses.replace(row, seconds=0) for row in run(toy())] == [
        dataclasses.replace(row, seconds=0) for row in usual
    ]


def has_code(program: Program) -> bool:
    return program.compiled is not None


def types() -> tuple[Any, ...]:
    return (jax.ShapeDtypeStruct((2,), "float32"),)


def mappings() -> int:
    """How many memory mappings this process has."""
    return len(MAPPINGS.read_text().splitlines())


def grown_by(programs: Programs, many: int) -> int:
    """How many mappings are added by a program that is compiled under many options, one after the other."""
    usual = programs.trace(("toy", "g"), "toy", CompileSetup(), lambda: (lambda x: (x @ x).sum(), types()))
    before = mappings()
    for number in range(many):
        options = (("xla_cpu_parallel_codegen_split_count", number + 1),)
        programs.start(programs.recompiled("toy", usual, options)).result()
    return mappings() - before


@pytest.mark.slow
@pytest.mark.skipif(not MAPPINGS.exists(), reason="counts memory mappings as Linux lists them")
def test_machine_code_of_dropped_programs_is_freed(programs: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_code, "is_crowded", lambda: True)
    monkeypatch.setattr(program_cache, "EVERY", 4)
    monkeypatch.setattr(program_cache, "_compile", vars(program_cache)["_compile"].each_time)
    grown_by(programs, 8)  # threads and libraries have mappings of their own
    freed = grown_by(programs, 60)
    programs.forget("toy")
    monkeypatch.setattr(machine_code, "release", lambda: None)
    retained = grown_by(programs, 60)  # the planted fault: jax's own cache keeps them
    assert retained > 60 and freed < retained / 3, (freed, retained)


def test_a_captured_array_that_changes_is_an_error(programs: Programs) -> None:
    """It would be lowered with numbers that the function did not see."""
    table = np.arange(4, dtype=np.float32)
    types = (jax.ShapeDtypeStruct((4,), np.float32),)
    program = programs.trace("key", "toy: 'fast'", CompileSetup(), lambda: (lambda x: x * table, types))
    table[0] = 7
    with pytest.raises(DeclarationError, match="an array that it captures was changed in place after it was traced"):
        programs.start(program).result()


def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mappings: int, most: str) -> None:
    """A system with so many memory mappings of this process, and so many permitted."""
    for name, text in (("_MAPPINGS", "7f00-7f01 r-xp\n" * mappings), ("_MOST", most)):
        (tmp_path / name).write_text(text)
        monkeypatch.setattr(program_cache, name, tmp_path / name)


@pytest.mark.parametrize(("mappings", "crowded"), [(50, False), (51, True)])
def test_half_of_the_mappings_are_for_machine_code(
    mappings: int, crowded: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system(tmp_path, monkeypatch, mappings, "100\n")
    assert program_cache.is_crowded() is crowded


def test_a_system_that_says_nothing_is_not_crowded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    system(tmp_path, monkeypatch, 51, "unlimited\n")
    assert not program_cache.is_crowded()
    monkeypatch.setattr(program_cache, "_MOST", tmp_path / "missing")
    assert not program_cache.is_crowded()


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="counts memory mappings as Linux lists them")
def test_this_process_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not program_cache.is_crowded()
    monkeypatch.setattr(program_cache, "SHARE", 0.0)
    assert program_cache.is_crowded()
