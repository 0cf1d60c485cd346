"""Mistakes with `samebits compare` and `new`: what was got, what was expected, and what to do, in one line."""

from pathlib import Path

import pytest

from samebits.cli.compare import in_options
from tests.support.invoke import samebits

FUNCTIONS = """\
import math

import jax.numpy as jnp

number = 3


def two(x):
    return x * 2


def double(x):
    return x + x


def tripled(y, x=0):
    return x * 3


def with_mean(x):
    return x * 2, x.mean()


def variadic(*arrays):
    return arrays[0] * 2


def named(**arrays):
    return arrays["x"] * 2


def text(x):
    return x * 2, {"name": "text"}


def nothing(x):
    return None


def generator(x):
    yield x * 2


async def coroutine(x):
    return x * 2


def take(table, ids):
    return table[ids]


def one_hot(table, ids):
    return (ids[:, None] == jnp.arange(len(table))) @ table


def branch(x):
    return x * 2 if x.sum() > 0 else x + x


class Layer:
    def scale(self, x):
        return x * 2


class Scale:
    def scale(self, x):
        return x * 2

    def __call__(self, x):
        return x * 2


layer = Layer()
scale = Scale()
"""
M = "mistaken_fns"
X = ("--arg", "x=f32[4,8]")
FORWARD = ("--direction", "forward")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / f"{M}.py").write_text(FUNCTIONS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_outputs_of_another_structure_are_named() -> None:
    ended = samebits("compare", f"{M}:two", f"{M}:with_mean", "--forward", *X)
    assert ended.code == 1
    leaves = "only the reference has out float32[4,8]; only the variant has out[0] float32[4,8], out[1] float32[]"
    assert leaves in ended.out
    assert "or map those of the second by adapt=Adapt(outputs=...) of samebits.assert_same; only the" in ended.out
    assert "of 0 elements" not in ended.out + ended.err


@pytest.mark.parametrize("variant", ["named", "scale", "scale.scale"])
def test_named_arguments_and_objects_work(variant: str) -> None:
    ended = samebits("compare", f"{M}:two", f"{M}:{variant}", *X, "--forward")
    assert ended.code == 0, ended.out + ended.err


COMPARED = {
    f"{M}:": "names no function after the colon; module 'mistaken_fns': it has Layer, Scale, ",
    f"{M}:math": "has no function 'math': it is the module math, which cannot be called (write math:NAME for a",
    f"{M}:number": "has no function 'number': it is 3, an int, which cannot be called",
    f"{M}:layer": "has no function 'layer': it is an object of the class Layer, which cannot be called",
    f"{M}:Scale": "; Scale is a class: give a function, or an object of the class that can be called",
    f"{M}:Scale.scale": "; Scale.scale is a method: take it from an object, as in obj.scale where obj = Scale(...)",
    M: f"expected module:function, or FILE.py:function; {M} is a module: write {M}:NAME; it has Layer,",
    f"{M}.two": f"expected module:function, or FILE.py:function; did you mean {M}:two?",
    f"{M}.py": f"expected module:function, or FILE.py:function; write {M}.py:NAME",
    f"{M}:variadic": "takes (*arrays), and what *arrays takes has no names, so that 'x' cannot be passed; wrap it in",
}


@pytest.mark.parametrize("variant", COMPARED)
@pytest.mark.parametrize("command", [("compare",), ("new", "pair")])
def test_what_cannot_be_a_function_is_one_line(command: tuple[str, ...], variant: str) -> None:
    for functions in ((f"{M}:double", variant), (variant, f"{M}:double")):
        ended = samebits(*command, *functions, *X)
        assert ended.code == 2, ended.out + ended.err
        assert COMPARED[variant] in ended.err
        assert len(ended.err.strip().splitlines()) == 1, ended.err
        assert ended.err.count("pair '") <= 1, ended.err


def test_new_needs_names_of_arguments() -> None:
    ended = samebits("new", "pair", f"{M}:variadic", f"{M}:variadic")
    assert ended.code == 2 and len(ended.lines) == 1, ended.err
    ended = samebits("new", "pair", f"{M}:variadic", f"{M}:two")
    assert ended.code == 2 and "what *arrays takes has no names" in ended.err, ended.err


@pytest.mark.parametrize(
    ("variant", "rename", "message"),
    [
        ("double", "z=y", "--rename z=y: there is no argument 'z'; the arguments are x"),
        ("double", "x=y", "--rename x=y: the second function takes (x), and no parameter 'y'"),
        ("named", "x=y", "takes (**arrays), which gets 'x' by that name; wrap it in a function that names 'y'"),
        ("tripled", "x=y", "--rename x=y: the second function takes (y, x=0), whose own 'x' gets that argument; wrap"),
    ],
)
def test_a_rename_that_renames_nothing(variant: str, rename: str, message: str) -> None:
    ended = samebits("compare", f"{M}:two", f"{M}:{variant}", *X, "--rename", rename)
    assert ended.code == 2 and len(ended.lines) == 1, ended.out + ended.err
    assert message in ended.err


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("text", "'text': out[1]['name'] is 'text', a str; return arrays alone"),
        ("generator", "'generator': out is a generator; it has `yield`: return the arrays, as in a tuple"),
        ("coroutine", "'coroutine': out is a coroutine; it is `async def`: compare the function that it awaits"),
    ],
)
def test_what_jax_has_no_array_of_is_one_line(function: str, message: str) -> None:
    for functions in ((function, "two"), ("two", function)):
        ended = samebits("compare", *(f"{M}:{name}" for name in functions), *X)
        assert ended.code == 2 and len(ended.lines) == 1, ended.out + ended.err
        assert message in ended.err


def test_nothing_in_place_of_an_array() -> None:
    ended = samebits("compare", f"{M}:nothing", f"{M}:two", *X)
    assert ended.code == 2 and ended.lines == ["samebits: 'nothing' returns no array; there is nothing to compare"]
    ended = samebits("compare", f"{M}:two", f"{M}:nothing", *X, "--forward")
    assert ended.code == 1
    assert "only the reference has out float32[4,8]; the variant has no leaves" in ended.out


def test_control_flow_by_values_is_one_line_with_its_place() -> None:
    ended = samebits("compare", f"{M}:two", f"{M}:branch", *X, "--forward")
    assert ended.code == 3
    number = FUNCTIONS.splitlines().index("    return x * 2 if x.sum() > 0 else x + x") + 1
    assert f"{M}.py:{number}); it is traced as by jax.jit: use jnp.where" in ended.out


def test_all_sizes_of_literal_shapes_say_what_to_write(folder: Path) -> None:
    assert samebits("new", "sized", f"{M}:two", f"{M}:double").code == 0
    advice = "for 'x' write shape=('x0', 'x1'), and sizes={'x0': 8, 'x1': 16} in the Case"
    for command in ("check", "prove"):
        ended = samebits(command, "sized", "--all-sizes", *FORWARD)
        assert f"the case has no sizes: its shapes are numbers; {advice}" in " ".join(ended.out.split()), ended.out
    assert "--all-sizes" not in samebits("check", "sized", *FORWARD).out
    file = folder / "suites" / "test_sized.py"
    declared = file.read_text().replace("shape=(8, 16)", "shape=('x0', 'x1')")
    file.write_text(declared.replace('id="small"', 'id="small", sizes={"x0": 8, "x1": 16}').replace("sized", "named"))
    file.rename(file.with_name("test_named.py"))
    ended = samebits("check", "named", "--all-sizes", *FORWARD)
    assert ended.code == 0 and "has no sizes" not in ended.out, ended.out


def test_integers_without_a_range_are_a_note_of_a_failure() -> None:
    args = ("--arg", "table=f32[9,4]", "--arg", "ids=i32[5]", "--forward")
    ended = samebits("compare", f"{M}:take", f"{M}:one_hot", *args)
    said = " ".join(ended.out.split())
    assert ended.code != 0 and "no range is given" in said, ended.out
    assert "out of range: ids=i32[5] (as in ids=i32[5]:0..7)" in said, ended.out
    ended = samebits("compare", f"{M}:two", f"{M}:double", "--arg", "x=i32[5]", "--forward")
    assert ended.code == 0 and "no range is given" not in ended.out, ended.out


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("or map them: rename={'q': ...}", "or map them: --rename q=OTHER"),
        ("no float output; declare gradients=False", "no float output; give --forward"),
        ("raised ValueError: gradients", "raised ValueError: gradients"),
        ("compared without gradients (gradients=False)", "compared without gradients (--forward)"),
    ],
)
def test_entries_of_a_declaration_become_options(text: str, shown: str) -> None:
    assert in_options(text) == shown
