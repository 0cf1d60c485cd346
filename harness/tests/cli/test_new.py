"""`samebits new` writes pairs that hold, rejects wrong names, and overwrites nothing."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from samebits.cli.new import FILES
from tests.support.invoke import clean_environment, samebits

FEW = ("--case", "small", "--mesh", "data4", "--dtype", "float32", "--direction", "forward")
"""For what one point shows."""


def written(root: Path) -> dict[str, str]:
    return {
        path.relative_to(root).as_posix(): path.read_text(encoding="utf-8")
        for path in root.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_the_pair_holds_and_a_mistake_in_it_does_not(tmp_path: Path) -> None:
    made = samebits("new", "shift", "--root", tmp_path)
    assert (made.code, made.lines) == (0, [])
    assert made.out.splitlines()[-1] == f"next: samebits check shift --root {tmp_path}"
    assert set(written(tmp_path)) == {path.format(name="shift") for path in FILES}
    honest = samebits("check", "shift", "--root", tmp_path)
    assert honest.code == 0 and re.search(r"rolled +proved \d+ +bitwise \d+", honest.out), honest.out
    other = tmp_path / "other"
    assert samebits("new", "shift", "--root", other).code == 0
    variant = other / "optimized_impls" / "shift.py"
    variant.write_text(variant.read_text(encoding="utf-8").replace("-by", "by"), encoding="utf-8")
    assert samebits("check", "shift", "--root", other, *FEW).code == 1


@pytest.mark.parametrize("name", ["my-pair", "2fast", "class", "_hidden", "a/b", ""])
def test_a_name_that_is_no_identifier(name: str, tmp_path: Path) -> None:
    ended = samebits("new", name, "--root", tmp_path)
    line = f"samebits: '{name}' cannot name a pair; expected a Python identifier such as rope or rms_norm"
    assert (ended.code, ended.out, ended.lines, written(tmp_path)) == (2, "", [line], {})


def test_no_file_is_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "suites" / "test_rope.py"
    path.parent.mkdir()
    path.write_text("PAIR = None\n")
    ended = samebits("new", "rope", "--root", tmp_path)
    line = f"samebits: '{path}' exists, and no file is overwritten; choose another name"
    assert (ended.code, ended.lines, written(tmp_path)) == (2, [line], {"suites/test_rope.py": "PAIR = None\n"})


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "reference_impls").write_text("a file where the folder belongs")
    ended = samebits("new", "rope", "--root", tmp_path)
    assert (ended.code, ended.lines) == (
        3,
        [f"samebits: '{tmp_path / 'reference_impls'}' cannot be written: File exists"],
    )


# --- two functions ---------------------------------------------------------------------------------------------------

FUNCTIONS = """
import jax
import jax.numpy as jnp


def norm(x, scale, *, eps=1e-6):
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + eps) * scale


def fast_norm(value, weight, *, eps=1e-6):
    return weight * (value / jnp.sqrt(jnp.mean(jnp.square(value), -1, keepdims=True) + eps))


def wrong_norm(value, weight, *, eps=1e-5):
    return weight * (value / jnp.sqrt(jnp.mean(jnp.square(value), -1, keepdims=True) + eps))


def embed(table, ids):
    return table[ids]


def embed_by_take(table, ids):
    return jnp.take(table, ids, axis=0)


def reads(ids, table):
    return table[ids]


def needs_seven(x):
    return x @ jnp.ones((7, 2))


def needs_seven_too(x):
    return x @ jnp.ones((7, 2), x.dtype)
"""


@pytest.fixture
def functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module of functions in the current folder; its name is new each time, as modules are imported once."""
    name = f"functions_of_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(FUNCTIONS)
    monkeypatch.chdir(tmp_path)
    return name


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("pair", "sides", "more", "inferred"),
    [
        ("norm", ("norm", "fast_norm"), (), "inferred: x=f32[8,16] scale=f32[8,16]; "),
        ("norm", ("norm", "fast_norm"), ("--arg", "x=bf16[8,32]", "--arg", "scale=bf16[32]"), ""),
        ("norm", ("norm", "fast_norm"), ("--static", "eps=0.25", "--arg", "scale=f32[16]"), "inferred: x=f32[8,16]; "),
        ("norm", ("norm", "fast_norm"), ("--arg", "x=f32[8@data,16]", "--arg", "scale=f32[16]"), ""),
        ("embed", ("embed", "embed_by_take"), (), "inferred: table=f32[8,16] ids=i32[8]:0..7; "),
        ("reads", ("embed", "reads"), (), "inferred: table=f32[8,16] ids=i32[8]:0..7; "),
        ("seven", ("needs_seven", "needs_seven_too"), ("--arg", "x=f32[3,7]:-0.0"), ""),
    ],
)
def test_two_equal_functions_hold_at_once(
    pair: str, sides: tuple[str, str], more: tuple[str, ...], inferred: str, functions: str, tmp_path: Path
) -> None:
    written_file = tmp_path / "suites" / f"test_{pair}.py"
    ended = samebits("new", pair, *(f"{functions}:{side}" for side in sides), *more)
    assert (ended.code, ended.lines) == (0, []), ended
    lines = ended.out.splitlines()
    assert (lines[0], lines[-1]) == (f"wrote {written_file}", f"next: samebits check {pair}")
    assert [line for line in lines if line.startswith("inferred")] == (
        [f"{inferred}edit them, or declare them with --arg"] if inferred else []
    )
    assert any("takes table and ids in another order: " in line for line in lines) == (pair == "reads")
    checked = samebits("check", pair)
    assert checked.code == 0, checked.out + checked.err
    assert f"{sides[1]} " in checked.out and ("data2" in checked.out) == ("x=f32[8@data,16]" in more)


def test_a_wrong_function_does_not_hold(functions: str) -> None:
    assert samebits("new", "norm", f"{functions}:norm", f"{functions}:wrong_norm").code == 0
    assert samebits("check", "norm", "--direction", "forward", "--dtype", "float32").code == 1


@pytest.mark.slow
def test_functions_of_a_file_and_of_a_library(functions: str, tmp_path: Path) -> None:
    assert samebits("new", "halves", f"{functions}.py:norm", f"{functions}.py:fast_norm").code == 0
    assert samebits("new", "silu", "jax.nn:silu", "jax.nn:swish").code == 2  # one function under two names
    assert samebits("new", "gelu", "jax.nn:gelu", "jax.nn:silu").code == 0
    assert samebits("check", "halves", "gelu").code == 1
    assert samebits("check", "halves").code == 0


@pytest.mark.slow
def test_pytest_runs_the_file_too(functions: str, tmp_path: Path) -> None:
    assert samebits("new", "norm", f"{functions}:norm", f"{functions}:fast_norm").code == 0
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "suites/test_norm.py"]
    ended = subprocess.run(words, cwd=tmp_path, env=clean_environment(), capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "4 passed" in ended.stdout


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ((), "nothing to write; give the name of a pair, as in `samebits new rope`, or --ci"),
        (
            ("norm", "{m}:norm"),
            "1 function given; expected two, the reference and the variant, each as MODULE:FUNCTION or FILE.py:",
        ),
        (("norm", "{m}:a", "{m}:b", "{m}:c"), "3 functions given; expected two, the reference and the variant"),
        (
            ("norm", "--arg", "x=f32[8]"),
            "--arg and --static declare the arguments of two functions; give these after the name",
        ),
        (
            ("norm", "{m}:nrm", "{m}:fast_norm"),
            "'{m}:nrm': module '{m}' has no function 'nrm'; did you mean norm?",
        ),
        (
            ("norm", "{m}:norm", "{m}:fast_norm", "--arg", "x=f33[8]"),
            "argument 'x=f33[8]': dtype 'f33' is unknown; expected a name as jax prints it, such as f32, bf16, ",
        ),
        (
            ("seven", "{m}:needs_seven", "{m}:needs_seven_too"),
            "the arguments of needs_seven(x) cannot be inferred: with x=f32[8,16] it raised TypeError: ",
        ),
        (
            ("my-pair", "{m}:norm", "{m}:fast_norm"),
            "'my-pair' cannot name a pair; expected a Python identifier such as ",
        ),
    ],
)
def test_wrong_requests_write_nothing(words: tuple[str, ...], line: str, functions: str, tmp_path: Path) -> None:
    ended = samebits("new", *(word.replace("{m}", functions) for word in words))
    assert (ended.code, ended.out, len(ended.lines)) == (2, "", 1), ended
    assert ended.lines[0].startswith(f"samebits: {line.replace('{m}', functions)}")
    assert not (tmp_path / "suites").exists()


def test_a_declaration_is_not_overwritten(functions: str, tmp_path: Path) -> None:
    words = ("new", "norm", f"{functions}:norm", f"{functions}:fast_norm")
    assert samebits(*words).code == 0
    path = tmp_path / "suites" / "test_norm.py"
    ended = samebits(*words)
    line = f"samebits: '{path}' exists, and no file is overwritten; choose another name"
    assert (ended.code, ended.lines) == (2, [line])
