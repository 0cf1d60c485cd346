"""Compiled programs cached on disk, and `compile_for` with the cache and without."""

import importlib.metadata
import json
import os
import re
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import platformdirs
import pytest
from jax.sharding import NamedSharding, PartitionSpec

from samebits.compile import cache as compile_cache
from samebits.compile import compiler
from samebits.compile.cache import Artefact, CompileCache
from samebits.compile.compiler import compile_for
from samebits.compile.devices import target_mesh
from samebits.errors import CouldNotRun, RequestError
from samebits.schema.program_facts import Facts
from tests.hlo.programs import V5E, needs_libtpu

MADE = Artefact(
    module=b"\x00\xffmodule" * 50,
    memory={"temp_bytes": 7, "peak_bytes": None, "argument_bytes": 8, "output_bytes": 8},
    cost={"bytes_accessed": 0.5, "flops": None, "optimal_seconds": 1e-9},
    seconds=0.25,
)


@pytest.fixture
def cache(tmp_path: Path) -> CompileCache:
    return CompileCache(tmp_path / "not" / "there" / "yet")


def key(cache: CompileCache, **changes: Any) -> str:
    usual: dict[str, Any] = {"text": "module", "place": "cpu [0]", "options": {"a": "1", "b": "2"}, "compiler": "0.1"}
    return cache.key(**{**usual, **changes})


def test_what_is_put_is_got(cache: CompileCache) -> None:
    assert cache.get("one") is None
    cache.put("one", MADE)
    assert cache.get("one") == MADE
    assert cache.get("another") is None
    cache.put("one", replace(MADE, seconds=9.0))
    assert cache.get("one") == replace(MADE, seconds=9.0)
    assert [file.name for file in cache.entries.folder.iterdir()] == ["one"]


@pytest.mark.parametrize(
    "changes",
    [
        {"text": "module "},
        {"place": "cpu [1]"},
        {"options": {"a": "1"}},
        {"options": {"a": "1", "b": "3"}},
        {"options": {"a": "12", "b": ""}},
        {"compiler": "0.2"},
        {"compiler": None},
    ],
    ids=str,
)
def test_anything_else_is_another_key(changes: dict[str, Any], cache: CompileCache) -> None:
    assert key(cache, **changes) != key(cache)
    assert key(cache, options={"b": "2", "a": "1"}) == key(cache), "in which order options are given does not count"


@pytest.mark.parametrize("name", ["XLA_FLAGS", "LIBTPU_INIT_ARGS"])
def test_flags_are_part_of_the_key(name: str, cache: CompileCache, monkeypatch: pytest.MonkeyPatch) -> None:
    before = key(cache)
    monkeypatch.setenv(name, "--xla_some=true")
    assert key(cache) != before


def test_versions_and_the_form_of_files_are_part_of_the_key(
    cache: CompileCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {key(cache)}
    for package in ("jax", "jaxlib"):
        with monkeypatch.context() as patch:
            patch.setattr(importlib.metadata, "version", lambda name, package=package: f"{name == package}")
            found.add(key(cache))
    monkeypatch.setattr(compile_cache, "FORMAT", "another")
    found.add(key(cache))
    assert len(found) == 4


def test_the_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SAMEBITS_CACHE_DIR", str(tmp_path))
    assert CompileCache().entries.folder == tmp_path / "compiled"
    assert CompileCache(tmp_path / "given").entries.folder == tmp_path / "given"
    monkeypatch.setenv("SAMEBITS_CACHE_DIR", "")
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda name: str(tmp_path / name))
    assert CompileCache().entries.folder == tmp_path / "samebits" / "compiled"


@pytest.mark.parametrize("content", [b"hello", b"[]\nmodule", b"{}\nmodule"])
def test_an_entry_of_another_format_counts_as_missing(content: bytes, cache: CompileCache) -> None:
    cache.entries.put("one", content)
    assert cache.get("one") is None
    cache.put("one", MADE)
    assert cache.get("one") == MADE


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    cache = CompileCache(tmp_path / "file" / "compiled")  # also for root, whom permissions do not stop
    cache.put("one", MADE)
    assert cache.get("one") is None


# --- compile_for -----------------------------------------------------------------------------------------------------


def sine(x: Any) -> Any:
    return jnp.sin(x) * 2


def made(function: Any, number: int = 1, target: str = "cpu:8", **given: Any) -> Facts:
    mesh = target_mesh(target, "context*")
    x = jax.ShapeDtypeStruct((64, 128), "float32", sharding=NamedSharding(mesh, PartitionSpec("context")))
    return compile_for(function, *[x] * number, mesh=mesh, target=target, **given)


def test_the_second_time_takes_no_compiling(cache: CompileCache, monkeypatch: pytest.MonkeyPatch) -> None:
    first = made(sine, cache=cache)
    with monkeypatch.context() as patch:
        patch.setattr(compiler, "compile_artefact", lambda *args: pytest.fail("compiled again"))
        second = made(sine, cache=cache)
    assert (first.cached, second.cached) == (False, True)
    assert {**asdict(first), "cached": True} == asdict(second)
    assert not made(sine, cache=cache, options={"xla_cpu_enable_fast_math": "True"}).cached
    assert not made(sine, cache=cache, target="cpu:4").cached
    assert not made(jnp.cos, cache=cache).cached
    assert not made(sine).cached


def test_facts_of_one_device() -> None:
    facts = made(sine)
    assert (facts.argument_bytes, facts.output_bytes) == (64 * 128 * 4 // 8, 64 * 128 * 4 // 8)
    assert (facts.while_loops, facts.wire_bytes, facts.collectives) == (0, 0, {})
    assert facts.operations["sine"] == 1 and not facts.cached
    json.dumps(asdict(facts))


def test_functions_of_different_arguments_are_never_one_program(cache: CompileCache) -> None:
    """Jit drops unused arguments and numbers the others anew: both have one text, and are compiled to one module."""
    first, second = (made(one, 2, cache=cache) for one in (lambda x, y: jnp.sin(x), lambda x, y: jnp.sin(y)))
    assert first.program != second.program and first.unordered != second.unordered
    assert not second.cached
    assert made(lambda x, y: jnp.sin(x), 2, cache=cache).program == first.program
    jitted = made(jax.jit(lambda x, y: jnp.sin(y)), 2)
    assert jitted.program == second.program
    assert made(lambda x, y: x, 2).program != made(lambda x, y: y, 2).program


def test_a_value_that_an_option_cannot_take() -> None:
    with pytest.raises(RequestError, match=r"^cpu:8 rejects an option: .*xla_cpu_enable_fast_math, 'perhaps' is not"):
        made(sine, options={"xla_cpu_enable_fast_math": "perhaps"})


def test_an_option_that_the_compiler_does_not_have() -> None:
    with pytest.raises(RequestError, match=r"^cpu:8 rejects an option: .*xla_no_such_option") as caught:
        made(sine, options={"xla_no_such_option": "true"})
    assert "\n" not in str(caught.value) and caught.value.exit_code == 2


@needs_libtpu
def test_an_option_that_the_tpu_compiler_does_not_have() -> None:
    with pytest.raises(RequestError, match=rf"^{V5E} rejects an option: .*xla_tpu_no_such_option"):
        made(sine, target=V5E, options={"xla_tpu_no_such_option": "true"})
    with pytest.raises(RequestError, match=f"^{V5E} rejects an option: "):
        made(sine, target=V5E, options={"xla_tpu_enable_sparse_core_collective_offload_all_gather": "maybe"})


def test_a_trace_that_raises() -> None:
    def wrong(x: Any) -> Any:
        raise ValueError("not this way\nbut another")

    said = r"^mine raised ValueError: not this way \(.*test_cache\.py:\d+\); 1 more line with --traceback$"
    with pytest.raises(CouldNotRun, match=said) as caught:
        made(wrong, label="mine")
    assert isinstance(caught.value.__cause__, ValueError) and not isinstance(caught.value, RequestError)


def test_a_compiler_that_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    class Lowered:
        def compile(self, **given: Any) -> Any:
            os.write(2, b"why it failed\n")
            raise RuntimeError("RESOURCE_EXHAUSTED: out of memory")

    mesh = target_mesh("cpu:8", "context*")
    program = replace(compiler.lower(sine, jnp.zeros(8), mesh=mesh, target="cpu:8", label="mine"), lowered=Lowered())
    with pytest.raises(CouldNotRun, match=r"^mine raised RuntimeError: RESOURCE_EXHAUSTED: out of memory") as caught:
        compiler.compile_program(program, {"xla_any": "1"})
    assert caught.value.__notes__ == ["why it failed"]


@pytest.mark.parametrize(
    ("analysis", "found"),
    [
        ({"bytes accessed": 3, "flops": -1.0, "optimal_seconds": -2e-9}, (3.0, None, None)),
        ([{"bytes accessed": 3.5, "flops": 0.0}], (3.5, 0.0, None)),
        ([], (None, None, None)),
        (None, (None, None, None)),
    ],
)
def test_estimates_below_zero_are_none(analysis: Any, found: tuple[float | None, ...]) -> None:
    assert tuple(compiler._cost(analysis).values()) == found


def test_memory_that_is_not_said_is_none() -> None:
    said = SimpleNamespace(temp_size_in_bytes=3, argument_size_in_bytes=4, output_size_in_bytes=5)
    assert compiler._memory(said) == {"temp_bytes": 3, "peak_bytes": None, "argument_bytes": 4, "output_bytes": 5}
    assert set(compiler._memory(None).values()) == {None}


def test_a_kept_module_that_is_none_is_said_so() -> None:
    with pytest.raises(CouldNotRun, match=re.escape("cannot be read as an HloModuleProto")):
        compiler.facts_of(MADE, (0,), cached=True)
