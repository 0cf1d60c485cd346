"""Tests share the compilation of a program with equal programs, and with no others."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest

from samebits.programs.program_cache import CompileSetup
from samebits.schema.meshes import MeshSpec
from samebits.train.trainer import Trainer, pool
from tests.support.compiled_once import MOST, STEPS, CompiledOnce
from tests.support.toy_model import MATRIX, toy

ALONE = CompileSetup()
X = jax.ShapeDtypeStruct((4,), "float32")


def lowered(function: Callable[..., Any], setup: CompileSetup = ALONE, *types: Any) -> Any:
    with setup.active():
        return jax.jit(function, keep_unused=True).trace(*(types or (X,))).lower()


def compiled(program: Any, setup: CompileSetup) -> Any:
    with setup.active():
        return program.compile(compiler_options=dict(setup.options) or None)


@pytest.fixture
def once() -> CompiledOnce:
    return CompiledOnce(compiled)


def test_an_equal_program_is_compiled_once(once: CompiledOnce) -> None:
    first, second = (once(lowered(lambda x: x * 2), ALONE) for _ in range(2))
    assert first is second
    np.testing.assert_array_equal(first(np.ones(4, "float32")), np.full(4, 2, "float32"))


OTHERS: dict[str, tuple[Callable[..., Any], CompileSetup]] = {
    "another operation": (lambda x: x * 3, ALONE),
    "another tree of outputs": (lambda x: [x * 2], ALONE),
    "64-bit types": (lambda x: x * 2, CompileSetup(x64=True)),
    "an option of the compiler": (lambda x: x * 2, CompileSetup(options=(("xla_cpu_enable_fast_math", True),))),
}


@pytest.mark.parametrize("name", OTHERS)
def test_another_program_is_compiled_itself(name: str, once: CompiledOnce) -> None:
    function, setup = OTHERS[name]
    assert once(lowered(function, setup), setup) is not once(lowered(lambda x: x * 2), ALONE)


def test_the_devices_count(once: CompiledOnce) -> None:
    setups = [CompileSetup(mesh=MeshSpec.parse(name).build("auto")) for name in ("data2", "data4")]
    assert len({CompiledOnce.key(lowered(lambda x: x * 2, setup), setup) for setup in [ALONE, *setups]}) == 3


def test_a_setting_of_jax_counts() -> None:
    program = lowered(lambda x: x * 2)
    before = CompiledOnce.key(program, ALONE)
    with jax.default_matmul_precision("highest"):
        assert CompiledOnce.key(program, ALONE) != before
    assert CompiledOnce.key(program, ALONE) == before


def test_what_calls_python_is_compiled_each_time(once: CompiledOnce) -> None:
    """Its text has the address of a function, which the next one may have."""

    def called(x: Any) -> Any:
        return jax.pure_callback(lambda x: np.asarray(x) + 1, X, x)

    program = lowered(called)
    assert CompiledOnce.key(program, ALONE) is None
    assert once(program, ALONE) is not once(program, ALONE)


def test_steps_of_trainings_are_compiled_once(tmp_path: Path) -> None:
    """And another step, another mesh and another kind of axes by themselves."""
    one, two = MATRIX.runs
    asked = [(toy(tmp_path), one), (toy(tmp_path), one), (toy(tmp_path, scale=2.0), one), (toy(tmp_path), two)]
    asked.append((toy(tmp_path), two.having(shard_mode="explicit")))
    with pool() as threads:
        first, again, *others = [Trainer(model, config, tmp_path, threads).compiled() for model, config in asked]
    assert first is again and len({id(each) for each in (first, *others)}) == 4


def test_the_oldest_are_dropped() -> None:
    once = CompiledOnce(compiled, most=1)
    first = once(lowered(lambda x: x * 2), ALONE)
    once(lowered(lambda x: x * 3), ALONE)
    assert once(lowered(lambda x: x * 2), ALONE) is not first


def test_few_steps_of_trainings_are_kept(once: CompiledOnce) -> None:
    """By a number of their own: a process has mappings for hundreds of small programs, and not for as many steps."""
    step = once.step(lambda trainer, program: program.compile(), most=1)
    trainer = SimpleNamespace(built=MeshSpec.parse("data2").build("auto"))
    double, triple = (lowered(function) for function in (lambda x: x * 2, lambda x: x * 3))
    first = step(trainer, double)
    assert step(trainer, double) is first
    step(trainer, triple)
    assert step(trainer, double) is not first
    assert STEPS < MOST
