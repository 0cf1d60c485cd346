"""A map between two trees of parameters must lose nothing; each planted loss is one line that names the leaf."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import PartitionSpec

from samebits.compile.devices import target_mesh
from samebits.errors import DeclarationError
from samebits.programs.side_call import check_bijection
from samebits.schema.meshes import Mode
from tests.hlo.programs import V5E, needs_libtpu

LEAVES = {
    "q": jax.ShapeDtypeStruct((4, 6), jnp.float32),
    "k": jax.ShapeDtypeStruct((4, 6), jnp.bfloat16),
    "b": jax.ShapeDtypeStruct((3,), jnp.float32),
}

HONEST: dict[str, Callable[[dict[str, Any]], Any]] = {
    "as it is": lambda t: t,
    "fused": lambda t: {"qk": jnp.concatenate([t["q"], t["k"]], axis=1), "b": t["b"]},
    "stacked": lambda t: (jnp.stack([t["q"], t["k"]]), t["b"]),
    "transposed": lambda t: [t["q"].T, t["k"].reshape(2, 12), t["b"][::-1]],
    "split": lambda t: [*jnp.split(t["q"], 3, axis=1), t["k"], t["b"], "a word", None],
}

WRONG: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "a leaf is lost": (lambda t: [t["q"], t["k"]], "3 of 3 elements of leaf 'b' are lost"),
    "a row is lost": (lambda t: [t["q"][1:], t["k"], t["b"]], "6 of 24 elements of leaf 'q' are lost"),
    "one leaf for another": (lambda t: [t["q"], t["q"], t["b"]], "24 of 24 elements of leaf 'q' arrive 2 times"),
    "scaled": (lambda t: [2 * t["q"], t["k"], t["b"]], "leaf '[0]' holds a value that no leaf brought"),
    "rounded": (lambda t: [t["q"].astype(jnp.bfloat16), t["k"], t["b"]], "leaf '[0]' holds a value that no leaf"),
    "zeros added": (lambda t: [t["q"], t["k"], t["b"], jnp.zeros(2)], "leaf '[3]' holds a value that no leaf brought"),
    "summed": (lambda t: [t["q"] + t["k"], t["b"]], "leaf '[0]' holds a value that no leaf brought"),
}


@pytest.mark.parametrize("name", HONEST)
def test_a_map_that_moves_everything_passes(name: str) -> None:
    check_bijection("here", LEAVES, HONEST[name])


@pytest.mark.parametrize("name", WRONG)
def test_a_map_that_loses_something_is_named(name: str) -> None:
    mapped, message = WRONG[name]
    with pytest.raises(DeclarationError) as raised:
        check_bijection("pair 'p': adapt of 'v', arguments", LEAVES, mapped)
    assert str(raised.value).startswith("pair 'p': adapt of 'v', arguments: ")
    assert message in str(raised.value)


def test_an_empty_leaf_brings_nothing() -> None:
    empty = {"x": jax.ShapeDtypeStruct((0, 3), jnp.float32)}
    check_bijection("here", empty, lambda t: t["x"].T)
    with pytest.raises(DeclarationError, match="holds a value that no leaf brought"):
        check_bijection("here", empty, lambda t: jnp.ones(2, jnp.int32))


def test_random_keys_are_moved_too() -> None:
    leaves = {"key": jax.eval_shape(lambda: jax.random.split(jax.random.key(0), 3))}
    check_bijection("here", leaves, lambda t: [t["key"][2], t["key"][:2]])
    with pytest.raises(DeclarationError, match="of leaf 'key' are lost"):
        check_bijection("here", leaves, lambda t: t["key"][1:])


def test_it_works_while_a_function_is_traced() -> None:
    def traced(x: Any) -> Any:
        check_bijection("here", {"x": x}, lambda t: t["x"].T)
        return x

    jax.jit(traced).trace(jax.ShapeDtypeStruct((2, 3), jnp.float32))


@needs_libtpu
@pytest.mark.parametrize("mode", ["auto", "explicit"])
def test_under_the_mesh_of_a_slice_that_runs_nothing(mode: Mode) -> None:
    built = target_mesh(V5E, "data*", mode)

    def traced(mapped: Callable[[dict[str, Any]], Any]) -> None:
        def side(x: Any) -> Any:
            check_bijection("here", LEAVES, mapped, built)
            return x

        with jax.set_mesh(built):
            jax.jit(side).trace(jax.ShapeDtypeStruct((8,), jnp.float32))

    def constrained(tree: dict[str, Any]) -> Any:
        return jax.tree.map(lambda leaf: jax.lax.with_sharding_constraint(leaf, PartitionSpec()), tree)

    for mapped in (HONEST["fused"], constrained) if mode == "auto" else (HONEST["fused"],):
        traced(mapped)
    with pytest.raises(DeclarationError, match="3 of 3 elements of leaf 'b' are lost"):
        traced(WRONG["a leaf is lost"][0])
