"""The search for the pass of a compiler that makes a program wrong, on a compiler that is planted."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from samebits.compile import passes
from samebits.errors import CouldNotRun
from samebits.hlo.module import HloModule

ORDER = ("spmd-partitioning", "algsimp", "mover", "dce", "fusion", "copy-insertion")


def module_bytes(right: bool) -> bytes:
    function = jnp.sin if right else jnp.cos
    executable: Any = jax.jit(function).lower(jax.ShapeDtypeStruct((2,), jnp.float32)).compile().runtime_executable()
    serialised: bytes = executable.hlo_modules()[0].as_serialized_hlo_module_proto()
    return serialised


def is_wrong(module: HloModule) -> bool:
    opcodes = {inst.opcode for _, inst in module.instructions()}
    if not opcodes & {"sine", "cosine"}:
        raise CouldNotRun("not partitioned yet")
    return "cosine" in opcodes


class Compiled:
    """A program, as jax has it."""

    def __init__(self, serialised: bytes) -> None:
        self.serialised = serialised

    def runtime_executable(self) -> Any:
        return self

    def hlo_modules(self) -> list[Any]:
        return [self]

    def as_serialized_hlo_module_proto(self) -> bytes:
        return self.serialised


class Compiler:
    """Writes a module after each pass; those from `faulty` on are wrong, unless it is left out and can be."""

    def __init__(self, faulty: str | None, *, optional: bool = True, early: int = 1) -> None:
        self.faulty, self.optional, self.early = faulty, optional, early
        self.right, self.wrong = module_bytes(True), module_bytes(False)
        blank: Any = jax.jit(jnp.negative).lower(jax.ShapeDtypeStruct((2,), jnp.float32)).compile().runtime_executable()
        self.blank: bytes = blank.hlo_modules()[0].as_serialized_hlo_module_proto()

    def __call__(self, program: Any, options: Mapping[str, Any]) -> Compiled:
        left_out = str(options.get(passes.DISABLE, "")).split(",")
        if self.faulty in left_out and not self.optional:
            raise CouldNotRun("the pass is needed")
        faulty = None if self.faulty in left_out else self.faulty
        start = len(ORDER) if faulty is None else ORDER.index(faulty)
        for number, name in enumerate(ORDER if "xla_dump_to" in options else ()):
            serialised = self.wrong if number >= start else self.right
            if number < self.early:
                serialised = self.blank
            length = len(serialised)
            prefix = bytes([0x0A]) + varint(length)
            path = Path(options["xla_dump_to"]) / f"module_0000.jit_f.{number:04d}.main.after_{name}.before_next.hlo.pb"
            path.write_bytes(prefix + serialised)
        return Compiled(self.wrong if faulty is not None else self.right)


def varint(number: int) -> bytes:
    parts = []
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    return bytes([*parts, number])


def search(compiler: Compiler, monkeypatch: pytest.MonkeyPatch) -> passes.FaultyPass | None:
    monkeypatch.setattr(passes, "compile_lowered", compiler)
    final = HloModule(compiler.wrong)
    return passes.faulty_pass(None, {}, is_wrong, final)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ORDER[2:])
def test_the_pass_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = search(Compiler(name), monkeypatch)
    assert found is not None and (found.name, found.heals, found.written) == (name, True, len(ORDER))
    assert found.modules is not None and [*map(is_wrong, found.modules)] == [False, True]
    assert found.before == ORDER[ORDER.index(name) - 1] and found.ran <= 3
    assert str(found) == (
        f"the pass '{name}' makes it wrong (right after {found.before}; {found.ran} of 6 modules run); right with "
        f"compiler option xla_disable_hlo_passes={name}"
    )


def test_a_pass_that_cannot_be_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    found = search(Compiler("mover", optional=False), monkeypatch)
    assert found is not None and found.heals is None and "it cannot be disabled" in str(found)


def test_a_program_that_is_wrong_in_the_end_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No module between passes is wrong: no pass is blamed, and the last module is the right one."""
    found = search(Compiler(None), monkeypatch)
    assert found is not None and found.heals is None and found.modules is not None
    assert [*map(is_wrong, found.modules)] == [False, True]
    assert str(found) == (
        "it is right after 'copy-insertion', the last pass with a module, and wrong in the end (2 of 6 modules run)"
    )


def test_without_modules_between_passes_none_is_blamed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert search(Compiler(None, early=len(ORDER)), monkeypatch) is None


@pytest.mark.parametrize("early", [0, 1, 3])
def test_what_is_wrong_before_it_can_be_run_blames_no_pass(early: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The module before the first that is wrong was not run: nothing says that it is right."""
    found = search(Compiler(ORDER[0], early=early), monkeypatch)
    assert found is not None and found.before is None and found.heals is None and found.modules is None
    assert str(found).startswith(f"it is wrong in the first module that can be run, after the pass '{ORDER[early]}'")
