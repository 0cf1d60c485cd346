"""Trees of `Arg` in a declaration: flat leaves by path, and the trees that sides receive."""

from typing import Any

import jax.numpy as jnp
import pytest

from samebits.errors import DeclarationError
from samebits.programs.like import like
from samebits.schema.argument_trees import argument_tree
from samebits.schema.case import Arg


def test_a_declared_tree_of_args() -> None:
    tree = argument_tree("here", {"w": Arg(shape=(2,)), "rest": [like(jnp.ones(3)), Arg(shape=(1,))]})
    assert tree.paths == ("['rest'][0]", "['rest'][1]", "['w']")
    assert tree.leaves("params").keys() == {"params['rest'][0]", "params['rest'][1]", "params['w']"}
    arrays = {name: jnp.full(arg.shape, number) for number, (name, arg) in enumerate(tree.leaves("params").items())}
    built = tree.assembled("params", arrays)
    assert [float(built["rest"][0][0]), float(built["rest"][1][0]), float(built["w"][0])] == [0, 1, 2]


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ((8, 16), "here[0] is 8, a int; expected Arg(shape=(...))"),
        ({"x": {"shape": (2,)}}, "here['x']['shape'][0] is 2, a int; expected Arg(shape=(...))"),
        ({}, "here is an empty dict; expected Arg(shape=(...)) in it"),
        ("f32[8]", "here is 'f32[8]', a str; expected Arg(shape=(...))"),
        (jnp.float32, "here is <class 'jax.numpy.float32'>"),
    ],
)
def test_what_is_no_declaration_is_one_line(declared: Any, message: str) -> None:
    with pytest.raises(DeclarationError) as raised:
        argument_tree("here", declared)
    assert str(raised.value).startswith(message)
    assert "\n" not in str(raised.value)
