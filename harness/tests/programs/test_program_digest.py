"""The digest of a program changes with everything that it computes, and not with where its lines are."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from samebits.host.installed import PACKAGE
from samebits.programs.program_cache import CompileSetup, Program
from samebits.programs.program_digest import ProgramDigest

X = jax.ShapeDtypeStruct((4, 8), jnp.float32)


def digest(function: Callable[..., Any], *types: Any, **setup: Any) -> ProgramDigest:
    program = Program("a program", CompileSetup(**setup))
    with program.setup.active():
        program.traced = jax.jit(function).trace(*(types or (X,)))
    return ProgramDigest(program)


@jax.custom_vjp
def marked(x: Any) -> Any:
    return x * 2


marked.defvjp(lambda x: (x * 2, None), lambda _, cotangent: (cotangent * 2,))

HONEST: tuple[Callable[..., Any], ...] = (
    lambda x: jnp.sin(x) + 1.0,
    lambda x: x @ x.T,
    lambda x: jax.lax.scan(lambda carry, row: (carry + row, carry * row), jnp.zeros(8), x),
    lambda x: marked(x),
    lambda x: jnp.take(x, jnp.array([1, 0]), axis=1),
    lambda x: jax.nn.relu(x),
)


@pytest.mark.parametrize("number", range(len(HONEST)))
def test_the_same_function_has_the_same_digest(number: int) -> None:
    first, _ = digest(HONEST[number]), jax.clear_caches()
    assert digest(HONEST[number]).text == first.text and first.calls is None


OTHERS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "literal": (lambda x: x + 1.0, lambda x: x + 1.5),
    "signed zero": (lambda x: x * 0.0, lambda x: x * -0.0),
    "operand order": (lambda x: x - jnp.sin(x), lambda x: jnp.sin(x) - x),
    "captured array": (lambda x: x + np.zeros(8, np.float32), lambda x: x + np.ones(8, np.float32)),
    "parameter": (lambda x: jnp.sum(x, axis=0), lambda x: jnp.sum(x, axis=1)[:1]),
    "precision": (lambda x: jnp.dot(x, x.T), lambda x: jnp.dot(x, x.T, precision="highest")),
    "inner program": (
        lambda x: jax.lax.fori_loop(0, 3, lambda _, y: y + 1.0, x),
        lambda x: jax.lax.fori_loop(0, 3, lambda _, y: y + 2.0, x),
    ),
    "outputs in a list": (lambda x: (x, x), lambda x: [x, x]),
    "weak type": (lambda x: jnp.asarray(1.0), lambda x: jnp.asarray(1.0, jnp.float32) * jnp.float32(1)),
    "a rule of its own": (lambda x: x * 2, lambda x: marked(x)),
    "a stopped gradient": (lambda x: x, lambda x: jax.lax.stop_gradient(x)),
    "a named scope": (lambda x: x + 1, lambda x: jax.named_scope("emulated_it")(lambda: x + 1)()),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_another_program_has_another_digest(name: str) -> None:
    first, second = OTHERS[name]
    assert digest(first).text != digest(second).text


def test_functions_of_one_text_are_one_program() -> None:
    assert digest(lambda x: x + 1.5).text == digest(lambda x: x + 1.5).text


def test_types_settings_and_devices_count() -> None:
    def function(x: Any) -> Any:
        return x + 1

    plain = digest(function).text
    mesh = jax.make_mesh((2,), ("data",))
    others = [digest(function, jax.ShapeDtypeStruct((4, 8), jnp.bfloat16)).text, digest(function, mesh=mesh).text]
    with jax.default_matmul_precision("highest"):
        others.append(digest(function).text)
    assert len({plain, *others}) == 4


def _loaded(tmp_path: Path, text: str) -> Callable[..., Any]:
    path = tmp_path / "side.py"
    path.write_text(text)
    names: dict[str, Any] = {}
    exec(compile(text, str(path), "exec"), names)
    function: Callable[..., Any] = names["side"]
    return function


def test_lines_do_not_count_and_files_are_named(tmp_path: Path) -> None:
    text = "import jax.numpy as jnp\n\ndef side(x):\n    return jnp.sin(x) * 2\n"
    first = digest(_loaded(tmp_path, text))
    moved = digest(_loaded(tmp_path, "# moved\n\n\n" + text))
    assert first.text == moved.text and str(tmp_path / "side.py") in first.files


@pytest.mark.parametrize("kind", ["pure", "io", "print"])
def test_what_calls_back_into_python_is_said(kind: str) -> None:
    def function(x: Any) -> Any:
        if kind == "print":
            jax.debug.print("{}", x[0, 0])
            return x
        call = jax.pure_callback if kind == "pure" else jax.experimental.io_callback
        return call(lambda y: y, X, x)

    calls = digest(function).calls
    assert calls is not None and "call" in calls


def test_code_of_another_language_is_said() -> None:
    calls = digest(lambda x: jax.ffi.ffi_call("code_of_a_test", X)(x)).calls
    assert (calls is not None and "ffi_call" in calls) or "code_of_a_test" in str(calls)


def test_jaxs_own_calls_are_known() -> None:
    assert digest(lambda x: jnp.linalg.qr(x)).calls is None
    assert digest(lambda x: jax.lax.top_k(x, 2)).calls is None


def test_what_cannot_be_lowered_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its point has an error, or is proved without being compiled; a digest must not end the run."""

    def raising(_: Program) -> None:
        raise NotImplementedError("no rule for this platform")

    monkeypatch.setattr(Program, "lower", raising)
    assert "cannot be lowered" in str(digest(lambda x: x + 1).calls)


def test_nothing_else_reads_what_an_equation_was_traced_from() -> None:
    """What a conclusion depends on there must be in the digest (`ProgramDigest._place`)."""
    users = {
        path.relative_to(PACKAGE).as_posix()
        for room in ("interpret", "programs", "prove", "check")
        for path in (PACKAGE / room).rglob("*.py")
        if re.search(r"source_info", path.read_text())
    }
    assert users == {
        "interpret/alignment/align.py",
        "interpret/alignment/sources.py",
        "interpret/equation.py",
        "interpret/rounding_error/domain.py",
        "interpret/windows.py",
        "programs/captured_values.py",
        "programs/program_cache.py",
        "programs/program_digest.py",
    }
