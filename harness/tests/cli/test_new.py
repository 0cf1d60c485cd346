"""`samebits new` writes pairs that hold and workflows that GitHub reads; it rejects wrong names, overwrites nothing."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from samebits.cli.new import ACTION, FILES, WORKFLOW
from tests.support.invoke import REPOSITORY, clean_environment, samebits

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


def steps(file: Path) -> list[dict[str, Any]]:
    document = yaml.safe_load(file.read_text(encoding="utf-8"))
    assert set(document) == {"name", True, "permissions", "jobs"}  # YAML 1.1 reads `on` as a truth value
    assert set(document[True]) == {"pull_request", "push"}
    (job,) = document["jobs"].values()
    return list(job["steps"])


def test_the_workflow_uses_the_action_of_this_version(tmp_path: Path) -> None:
    ended = samebits("new", "--ci", "--root", tmp_path)
    assert (ended.code, ended.lines) == (0, [])
    assert ended.out.splitlines()[0] == f"wrote {tmp_path / WORKFLOW}"
    checkout, action = steps(tmp_path / WORKFLOW)
    assert checkout["with"] == {"fetch-depth": 0}
    assert action["uses"] == ACTION and ACTION.startswith("samebits/samebits@v0.")
    assert set(action["with"]) == {"python-version", "base"}
    assert action["with"]["base"] == "${{ github.event.pull_request.base.sha }}"


@pytest.mark.parametrize(
    ("file", "installs"),
    [("pyproject.toml", "-e ."), ("setup.py", "-e ."), ("requirements.txt", "-r requirements.txt")],
)
def test_a_tree_inside_a_repository(file: str, installs: str, tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    (tmp_path / file).write_text("")
    tree = tmp_path / "checks" / "numerics"
    tree.mkdir(parents=True)
    assert samebits("new", "--ci", "--root", tree, "--action", "./").code == 0
    _, action = steps(tmp_path / WORKFLOW)
    assert action["uses"] == "./"
    assert (action["with"]["install"], action["with"]["root"]) == (installs, "checks/numerics")
    declared = yaml.safe_load((REPOSITORY / "action.yml").read_text(encoding="utf-8"))["inputs"]
    assert set(action["with"]) <= set(declared)


@pytest.mark.parametrize("action", ["samebits", "samebits/samebits", "a b/c@v1", ""])
def test_an_action_that_github_cannot_find(action: str, tmp_path: Path) -> None:
    ended = samebits("new", "--ci", "--root", tmp_path, "--action", action)
    line = f"samebits: --action {action}: expected OWNER/REPOSITORY@REF, or ./FOLDER of this repository"
    assert (ended.code, ended.lines, list(tmp_path.iterdir())) == (2, [line], [])


def test_a_name_and_a_workflow_are_two_commands(tmp_path: Path) -> None:
    ended = samebits("new", "rope", "--ci", "--root", tmp_path)
    line = "samebits: --ci writes the workflow of a whole tree; leave out the name of a pair"
    assert (ended.code, ended.lines) == (2, [line])
    ended = samebits("new", "--ci", "--arg", "x=f32[8]", "--root", tmp_path)
    assert (ended.code, ended.lines) == (2, ["samebits: --ci goes with --action and --root alone"])


def test_the_workflow_is_not_overwritten(tmp_path: Path) -> None:
    assert samebits("new", "--ci", "--root", tmp_path).code == 0
    ended = samebits("new", "--ci", "--root", tmp_path)
    assert (ended.code, len(ended.lines)) == (2, 1) and "no file is overwritten" in ended.lines[0]
