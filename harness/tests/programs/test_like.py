"""Pytrees of arrays as declarations: their leaves by path, built again with everything in them that is not an array."""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AbstractMesh, NamedSharding
from jax.sharding import PartitionSpec as P

import samebits
from samebits.errors import DeclarationError
from samebits.programs.like import like
from samebits.schema.argument_trees import ArgTree
from samebits.schema.values import Given, Normal


class Weights(NamedTuple):
    kernel: Any
    bias: Any


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Block:
    inner: Weights
    act: Any = dataclasses.field(metadata={"static": True})


def _built(tree: ArgTree) -> Any:
    return tree.build([jnp.zeros(arg.shape, arg.dtype) for arg in tree.args])


def test_leaves_are_named_as_jax_prints_them() -> None:
    block = Block(inner=Weights(kernel=jnp.ones((2, 3)), bias=jax.ShapeDtypeStruct((3,), jnp.bfloat16)), act=jnp.tanh)
    tree = like({"layers": [block, None], "rate": 0.5})
    assert tree.paths == ("['layers'][0].inner.kernel", "['layers'][0].inner.bias")
    assert [(arg.shape, arg.dtype) for arg in tree.args] == [((2, 3), "float32"), ((3,), "bfloat16")]
    assert isinstance(tree.args[0].values, Given)
    assert isinstance(tree.args[1].values, Normal)


def test_what_is_no_array_is_passed_on_as_it_is() -> None:
    tree = like({"w": np.ones(2, np.float32), "rate": 0.5, "act": jnp.tanh, "none": None, "name": "gelu"})
    built = _built(tree)
    assert (built["rate"], built["act"], built["none"], built["name"]) == (0.5, jnp.tanh, None, "gelu")


def test_a_random_key_is_its_words() -> None:
    for impl, words in (("threefry2x32", 2), ("rbg", 4)):
        (arg,) = like(jax.random.key(3, impl=impl)).args
        assert arg.shape == ()
        assert str(arg.dtype).startswith("key<")
        assert np.asarray(arg.values.array).shape == (words,)  # type: ignore[union-attr]


@pytest.mark.slow
def test_a_weak_type_stays_weak() -> None:
    weak = jnp.asarray(2.0)
    assert weak.weak_type
    assert [arg.weak_type for arg in like([weak, jnp.float32(2)]).args] == [True, False]
    # A strong float32 would make the product float32, and the comparison of the two sides another one.
    compared = samebits.check(lambda x, s: x * s, lambda x, s: s * x, jnp.ones((2, 3), jnp.bfloat16), weak)
    assert compared.ok
    assert samebits.check(lambda x, s: x * s, lambda x, s: x * s.astype(x.dtype), jnp.ones(3, jnp.bfloat16), weak).ok


def test_specs_may_be_a_prefix_of_the_tree() -> None:
    tree = {"a": {"x": jnp.ones((4, 2)), "y": jnp.ones(4)}, "b": jnp.ones(2)}
    assert [arg.spec for arg in like(tree, specs=P("dp")).args] == [("dp",)] * 3
    assert [arg.spec for arg in like(tree, specs={"a": P("dp"), "b": None}).args] == [("dp",), ("dp",), ()]


def test_specs_of_another_tree_are_one_line() -> None:
    tree = {"a": jnp.ones(4), "b": jnp.ones(4)}
    with pytest.raises(DeclarationError, match=r"do not fit the arguments.*prefix of the argument") as raised:
        like(tree, specs={"a": P("dp")})
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("wrong", ["dp", 3, NamedSharding(AbstractMesh((2,), ("dp",)), P("dp"))])
def test_what_is_not_a_spec_is_named(wrong: object) -> None:
    with pytest.raises(DeclarationError, match=rf"a {type(wrong).__name__}; expected a PartitionSpec$"):
        like({"a": jnp.ones(4)}, specs={"a": wrong})


def test_a_tree_without_arrays_is_one_line() -> None:
    with pytest.raises(
        DeclarationError, match=r"like\(\{'rate': 0.5\}\): no array in it; expected a pytree with arrays"
    ):
        like({"rate": 0.5})


def test_a_reference_to_an_array_is_one_line() -> None:
    with pytest.raises(DeclarationError, match=r"the argument\['cache'\] is a jax\.Ref.*ref\[\.\.\.\]") as raised:
        like({"cache": jax.new_ref(jnp.zeros(3)), "x": jnp.zeros(3)})
    assert "\n" not in str(raised.value)
