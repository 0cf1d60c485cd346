"""Compiled programs that look the same and are not: callbacks, captured arrays, settings only the compiler reads."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from samebits.compile.cache import CompileCache
from samebits.compile.compiler import compile_for, lower
from samebits.compile.devices import target_mesh
from samebits.compile.pair import Compiler
from samebits.host.environment import configuration
from samebits.schema.program_facts import Facts
from tests.support.child import value_of


def by(factor: float) -> Callable[[Any], Any]:
    def times(x: Any) -> Any:
        kind = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return jax.pure_callback(lambda a: np.asarray(a) * np.float32(factor), kind, x)

    return times


def compiled(function: Callable[..., Any], cache: CompileCache | None = None) -> Facts:
    shape = jax.ShapeDtypeStruct((8,), jnp.float32)
    return compile_for(function, shape, mesh=target_mesh("cpu:1", "data1"), target="cpu:1", cache=cache)


def test_programs_with_callbacks_are_never_cached(tmp_path: Path) -> None:
    cache = CompileCache(tmp_path)
    two, three = (compiled(by(factor), cache) for factor in (2, 3))
    assert two.program != three.program and two.unordered != three.unordered
    assert not three.cached and not list(tmp_path.iterdir())


def test_two_callbacks_are_never_compiled_as_one_program(tmp_path: Path) -> None:
    mesh, shape = target_mesh("cpu:1", "data1"), jax.ShapeDtypeStruct((8,), jnp.float32)
    compiler = Compiler(None, threads=1)
    try:
        first, second = (lower(by(n), shape, mesh=mesh, target="cpu:1", label="mine") for n in (2, 3))
        assert compiler.start(first, {}) is compiler.start(first, {})
        assert compiler.start(first, {}) is not compiler.start(second, {})
    finally:
        compiler.close()


CAPTURED = """
import jax, jax.numpy as jnp
from samebits.compile.compiler import lower
from samebits.compile.cache import CompileCache
from samebits.compile.compiler import compile_program
from samebits.compile.devices import target_mesh
import sys
mesh, shape = target_mesh("cpu:1", "data1"), jax.ShapeDtypeStruct((8,), jnp.float32)
arrays = [jnp.arange(8.0) + n for n in (2, 3, 2)]
cache = CompileCache(__import__("pathlib").Path(sys.argv[1]))
lowered = [lower(lambda x, a=a: x * a, shape, mesh=mesh, target="cpu:1", label="mine") for a in arrays]
facts = [compile_program(one, {}, cache).facts for one in lowered]
print(lowered[0].text == lowered[1].text, [one.cached for one in facts], len({one.program for one in facts}))
"""


def test_captured_arrays_are_part_of_a_program(tmp_path: Path) -> None:
    """Where lowering makes them arguments; the first and the last have captured the same numbers."""
    settings = {"JAX_USE_SIMPLIFIED_JAXPR_CONSTANTS": "1", "JAX_EMBEDDED_CONSTANTS_MAX_BYTES": "16"}
    code = CAPTURED.replace("sys.argv[1]", repr(str(tmp_path)))
    assert value_of(code, variables=settings) == "True [False, False, True] 2"


@pytest.mark.parametrize("name", ["jax_disable_most_optimizations", "jax_compiler_enable_remat_pass"])
def test_settings_of_the_compiler_are_part_of_the_key(name: str, tmp_path: Path) -> None:
    cache, before = CompileCache(tmp_path), dict(configuration())[name]
    usual = cache.key("module", "cpu", {}, "1")
    jax.config.update(name, not before)
    try:
        assert cache.key("module", "cpu", {}, "1") != usual
    finally:
        jax.config.update(name, before)
    assert cache.key("module", "cpu", {}, "1") == usual
