"""Sides of a declared pair with trees, other names and other structures, through `samebits.check`."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import samebits
from samebits import Adapt, Arg, Case, DeclarationError, Pair, like
from samebits.programs.side_call import side_call
from samebits.schema.meshes import MeshSpec


def _split(params: Any, x: Any, *, scale: float) -> Any:
    return {"q": scale * (x @ params["q"]), "k": x @ params["k"]}


def _fused(weights: Any, x: Any, *, scale: float) -> Any:
    return x @ weights * jnp.where(jnp.arange(8) < 4, scale, 1.0)


def _to_fused(params: Any, x: Any, scale: float) -> dict[str, Any]:
    return {"weights": jnp.concatenate([params["q"], params["k"]], axis=1), "x": x, "scale": scale}


def _other_names(weights: Any, x: Any, multiplier: Any) -> Any:
    return _split(weights, x, scale=multiplier)


ADAPT = Adapt(arguments=_to_fused, outputs=lambda out: {"q": out[..., :4], "k": out[..., 4:]})
PAIR = Pair(
    name="projections",
    reference=_split,
    variants={"fused": _fused, "renamed": _other_names},
    args={"params": {"q": Arg(shape=(3, 4)), "k": Arg(shape=(3, 4))}, "x": Arg(shape=("rows", 3), spec=("dp",))},
    cases=(Case(id="small", sizes={"rows": 4}, statics={"scale": 2.0}),),
    dtypes=("float32",),
    meshes=("none", "dp2"),
    rename={"params": "weights", "scale": "multiplier"},
    adapt={"fused": ADAPT},
    transforms=("vmap",),
)


@pytest.mark.slow
def test_every_side_takes_the_trees_in_its_own_way() -> None:
    compared = samebits.check(PAIR)
    assert compared.ok, compared
    leaves = {leaf.place.leaf for leaf in compared.leaves}
    assert leaves == {"out['k']", "out['q']", "params['k']", "params['q']", "x"}
    assert {leaf.place.case for leaf in compared.leaves} == {"small", "small_vmap"}


@pytest.mark.slow
def test_outputs_that_are_exchanged_are_different() -> None:
    wrong = dataclasses.replace(ADAPT, outputs=lambda out: {"k": out[..., :4], "q": out[..., 4:]})
    compared = samebits.check(dataclasses.replace(PAIR, adapt={"fused": wrong}, transforms=()))
    assert {leaf.ruling.verdict for leaf in compared.leaves if leaf.place.variant == "fused"} == {"different"}
    assert {leaf.ruling.ok for leaf in compared.leaves if leaf.place.variant == "renamed"} == {True}


def test_a_map_that_is_no_dict_is_one_line() -> None:
    as_list: Any = lambda params, x, scale: [params, x, scale]  # noqa: E731
    wrong = dataclasses.replace(PAIR, adapt={"fused": Adapt(arguments=as_list)})
    with pytest.raises(DeclarationError, match=r"adapt of 'fused', arguments: got a list; expected the variant's arg"):
        samebits.check(wrong)


def test_a_record_of_arrays_becomes_trees() -> None:
    pair = dataclasses.replace(PAIR, args={"params": like({"q": jnp.ones((3, 4)), "k": jnp.ones((3, 4)), "n": 5})})
    received = []

    def side(**arguments: Any) -> Any:
        received.append(arguments)
        return arguments["params"]["q"]

    call = side_call(pair, "projections", side, pair.cases[0], MeshSpec.parse("none"))
    call({"params['q']": 1, "params['k']": 2})
    assert received == [{"params": {"q": 1, "k": 2, "n": 5}, "scale": 2.0}]


def test_keys_arrive_as_keys() -> None:
    pair = Pair(
        name="keyed",
        reference=lambda key: jax.random.bits(key, (3,)),
        variants={"again": lambda key: jax.random.bits(jax.random.clone(key), (3,))},
        args={"key": Arg(shape=(), dtype="key<fry>")},
        cases=(Case(id="call"),),
        dtypes=("float32",),
    )
    assert samebits.check(pair).ok
    with pytest.raises(DeclarationError, match="dtype 'key<other>' is unknown; a random key is one of key<fry>"):
        samebits.check(dataclasses.replace(pair, args={"key": Arg(shape=(), dtype="key<other>")}))


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        ("text", "out is 'text', a str; return arrays alone"),
        ({"a": (1, object())}, "out['a'][1] is an object of the class object; return arrays alone"),
        (map(abs, [1]), "out is an object of the class map; return what it gives, as a tuple"),
        ([(number for number in (1, 2))], "out[0] is a generator; it has `yield`: return the arrays, as in a tuple"),
    ],
)
def test_what_is_not_an_array_is_named(returned: Any, said: str) -> None:
    with pytest.raises(DeclarationError, match="'variant'") as raised:
        samebits.assert_same(lambda x: x, lambda x: returned, jnp.ones(3))
    assert str(raised.value).endswith(said)


def test_numbers_of_python_and_numpy_are_arrays() -> None:
    x = np.ones(3, np.float32)
    samebits.assert_same(lambda x: (x, 1, 2.0), lambda x: (+x, 1, 2.0), x, gradients=False)
    samebits.assert_same(lambda x: (x, np.float32(1)), lambda x: (+x, np.float32(1)), x, gradients=False)
