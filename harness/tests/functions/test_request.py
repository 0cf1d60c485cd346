"""Wrong requests get one line: what was got, what is expected, what to do."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

import samebits
from samebits.errors import SamebitsError
from samebits.functions.request import compare_request
from tests.functions import specimens as f

X = jax.ShapeDtypeStruct((6, 4), jnp.float32)


def _takes_two(x: Any, y: Any) -> Any:
    return x + y


class _Layer:
    def scaled(self, x: Any) -> Any:
        return x


WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "no function": (
        lambda: samebits.assert_same(f.softmax, 3, X),  # type: ignore[arg-type]
        "the second argument is 3, an int; expected a function",
    ),
    "arrays in place of functions": (
        lambda: samebits.assert_same(jnp.ones((64, 64)), jnp.ones((64, 64))),  # type: ignore[arg-type]
        "the first argument is an array float32[64,64]; expected a function, and what both are called with after the "
        "two; samebits.assert_same_bits(found, expected) compares arrays",
    ),
    "trees in place of functions": (
        lambda: samebits.assert_same(f.softmax, {"w": jnp.ones(64)}, X),  # type: ignore[arg-type]
        "the second argument is a dict of 1 entry; expected a function, and what both are called with after the two; "
        "samebits.assert_same_bits",
    ),
    "one array": (
        lambda: samebits.check(jnp.ones((64, 64))),  # type: ignore[arg-type]
        "samebits.check(an array float32[64,64]): one function",
    ),
    "inside of jit": (
        lambda: jax.jit(lambda x: samebits.assert_same(f.softmax, f.shifted, x))(jnp.ones((6, 4))),
        "'x' is a traced array: two functions are compared by compiling and running them, which cannot be done inside",
    ),
    "a tree inside of grad": (
        lambda: jax.grad(lambda x: samebits.assert_same(f.softmax, lambda x: x["w"], {"w": x}))(jnp.ones((6, 4))),
        "'x'['w'] is a traced array: ",
    ),
    "other arrays inside of jit": (
        lambda: jax.jit(lambda y: samebits.assert_same(f.softmax, f.shifted, X))(jnp.ones((6, 4))),
        "this was called while jax traces the function around it: two functions are compared by",
    ),
    "a proof inside of jit": (
        lambda: jax.jit(lambda x: samebits.prove(f.softmax, f.shifted, x).verdict)(jnp.ones((6, 4))),
        "'x' is a traced array: ",
    ),
    "nothing else": (lambda: samebits.check(f.softmax), "one function and nothing else; expected two functions and"),
    "the same function": (lambda: samebits.assert_same(f.softmax, f.softmax, X), "nothing would be compared"),
    "no array": (
        lambda: samebits.assert_same(f.softmax, f.shifted, 3.0),
        "no array among the arguments (x); give arrays",
    ),
    "no argument": (
        lambda: samebits.assert_same(lambda: 1, lambda: 2),
        "no array among the arguments (there are none)",
    ),
    "missing argument": (
        lambda: samebits.assert_same(_takes_two, lambda x, y: x, X),
        "'_takes_two' takes (x, y) and cannot be called with 1 positional arguments: missing a required argument: 'y'",
    ),
    "a method of a class": (
        lambda: samebits.assert_same(f.softmax, _Layer.scaled, X),
        "missing a required argument: 'x'; _Layer.scaled is a method: take it from an object, as in obj.scaled where",
    ),
    "a class": (
        lambda: samebits.assert_same(f.softmax, _Layer, X),
        "; _Layer is a class: give a function, or an object of the class that can be called",
    ),
    "other argument name": (
        lambda: samebits.assert_same(f.softmax, f.shifted, X, dim=1),
        "cannot be called with 1 positional arguments and dim: got an unexpected keyword argument 'dim'",
    ),
    "misspelt option": (
        lambda: samebits.assert_same(f.softmax, f.shifted, X, gradient=False),
        "; did you mean the option gradients=?",
    ),
    "unknown verdict": (
        lambda: samebits.assert_same(f.softmax, f.shifted, X, accept="equal"),
        "accept='equal'; expected one of proved, bitwise, rounding, or None",
    ),
    "no seeds": (
        lambda: samebits.assert_same(f.softmax, f.shifted, X, seeds=0),
        "seeds=0; expected a number of at least 1",
    ),
    "no mesh": (
        lambda: samebits.assert_same(f.softmax, f.shifted, X, mesh=(2, 4)),
        "mesh=(2, 4) is a tuple; expected a jax.sharding.Mesh, or an id such as",
    ),
    "malformed mesh": (lambda: samebits.assert_same(f.softmax, f.shifted, X, mesh="dp-2"), "mesh 'dp-2'"),
    "large mesh": (
        lambda: samebits.assert_same(f.softmax, f.shifted, X, mesh="dp4096", specs=P("dp")),
        "mesh 'dp4096' needs 4096 devices and",
    ),
    "specs by another name": (
        lambda: samebits.assert_same(f.softmax, f.shifted, X, mesh="dp2", specs={"y": P("dp")}),
        "specs name 'y'; the arguments are x",
    ),
    "too many specs": (
        lambda: samebits.assert_same(f.softmax, f.shifted, X, mesh="dp2", specs=(P("dp"), P("dp"))),
        "expected a PartitionSpec, one per positional argument (x), or a dict by name",
    ),
    "a tolerance": (
        lambda: samebits.assert_same(f.softmax, f.shifted, X, rtol=1e-5),
        "; tolerances are not given: the bound of rounding is computed; accept= is the lowest verdict, and accuracy= "
        "how many times the error of the first is accepted",
    ),
    "a spec of another axis": (
        lambda: samebits.assert_same(f.softmax, f.shifted, X, mesh="dp2", specs=(P("tp"),)),
        "'x' is split over 'tp'; expected some of the axes of mesh 'dp2': dp",
    ),
    "no auxiliary": (
        lambda: samebits.assert_same(f.softmax, f.shifted, X, has_aux=True),
        "has_aux=True and 'softmax' returned an array float32[6,4]; expected (outputs, auxiliary)",
    ),
    "too few specs": (
        lambda: samebits.assert_same(_takes_two, lambda x, y: y + x, X, X, mesh="dp2", specs=(P("dp"),)),
        "specs=(P('dp',),) has none for y; expected a PartitionSpec, one per positional argument (x, y), or a dict",
    ),
    "a spec longer than the shape": (
        lambda: samebits.assert_same(
            _takes_two, lambda x, y: y + x, X, X, mesh="dp2", specs={"y": P("dp", None, None)}
        ),
        "'y': argument of shape (6, 4): spec ('dp', None, None) has 3 entries; expected at most one per dimension",
    ),
    "a spec longer than the shape of a leaf": (
        lambda: samebits.assert_same(
            lambda p: p["w"], lambda p: +p["w"], {"w": X}, mesh="dp2", specs=P("dp", None, "a")
        ),
        "'p': leaf ['w']: argument of shape (6, 4): spec ('dp', None, 'a') has 3 entries; expected at most",
    ),
    "a lambda of other arguments": (
        lambda: samebits.assert_same(lambda x: x, lambda x, y: y, X),
        "the second function, a lambda, takes (x, y) and cannot be called with 1 positional arguments",
    ),
    "a rename of another name": (
        lambda: samebits.assert_same(f.softmax, f.shifted, X, rename={"y": "z"}),
        "rename y=z: there is no argument 'y'; the arguments are x, mesh",
    ),
    "a rename to another name": (
        lambda: samebits.assert_same(f.softmax, f.shifted, x=X, rename={"x": "z"}),
        "rename x=z: the second function takes (x, axis=-1), and no parameter 'z'",
    ),
    "no output": (lambda: samebits.assert_same(lambda x: None, lambda x: (), X), "returns no array; there is nothing"),
    "no Adapt": (
        lambda: samebits.assert_same(f.softmax, f.shifted, X, adapt=lambda x: x),
        "expected samebits.Adapt(arguments=..., outputs=...)",
    ),
    "a size that does not divide": (
        lambda: samebits.assert_same(f.softmax, f.shifted, X, mesh="dp4", specs=P("dp")),
        "argument 'x': dimension 0 has size 6, which does not divide by 4",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_request_is_one_line(name: str) -> None:
    call, message = WRONG[name]
    with pytest.raises(SamebitsError) as raised:
        call()
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)
    assert raised.value.exit_code == 2


def test_keywords_that_are_no_options_are_for_the_functions() -> None:
    request = compare_request(f.softmax, f.shifted, (X,), {"axis": 0, "seeds": 2, "mesh": None})
    assert dict(request.keywords) == {"axis": 0}
    assert request.options.seeds == 2


def test_the_functions_may_have_parameters_of_any_name() -> None:
    def ours(x: Any, *, reference: Any, variant: Any) -> Any:
        return x * reference + variant

    def theirs(x: Any, *, reference: Any, variant: Any) -> Any:
        return variant + reference * x

    numbers: dict[str, Any] = {"reference": np.float32(2), "variant": np.float32(3)}
    samebits.assert_same(ours, theirs, np.ones((3, 2), np.float32), **numbers, gradients=False)


def test_specs_may_leave_out_what_has_no_array() -> None:
    def scaled(x: Any, by: float) -> Any:
        return x * by

    layout: dict[str, Any] = {"mesh": "dp2", "specs": (P("dp"),)}
    samebits.assert_same(scaled, lambda x, by: by * x, f.rows(), 2.0, **layout, gradients=False)


def test_a_comparison_of_concrete_arrays_may_stand_in_grad() -> None:
    def loss(y: Any) -> Any:
        samebits.assert_same(f.rows_flipped, f.rows_reversed, f.rows())
        return y.sum()

    assert jax.grad(loss)(jnp.ones(2)).tolist() == [1, 1]
