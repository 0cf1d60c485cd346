"""Mistakes with `samebits compare` and `new`: what was got, what was expected, and what to do, in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

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
    assert "of 0 elements" not in ended.out + ended.err


@pytest.mark.parametrize("variant", ["named", "scale", "scale.scale"])
def test_named_arguments_and_objects_work(variant: str) -> None:
    ended = samebits("compare", f"{M}:two", f"{M}:{variant}", *X, "--forward")
    assert ended.code == 0, ended.out + ended.err


COMPARED = {
    f"{M}:": "names no function after the colon; module 'mistaken_fns': it has Layer, Scale, double,",
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
