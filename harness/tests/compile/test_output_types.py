"""Sides with one program that return other trees, dtypes or weak types: `compile` says what `check` says of them."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import pytest

import samebits
from samebits.compile.compiler import OutputTypes

ROWS = jax.ShapeDtypeStruct((8, 128), jnp.float32)


class Rope(NamedTuple):
    cos: Any
    sin: Any


class Swapped(NamedTuple):
    sin: Any
    cos: Any


def tables(x: Any) -> Any:
    return Rope(jnp.cos(x), jnp.sin(x))


def swapped(x: Any) -> Any:
    return Swapped(jnp.cos(x), jnp.sin(x))


def with_none(x: Any) -> Any:
    return {"a": jnp.cos(x), "b": jnp.sin(x), "c": None}


def strong(x: Any) -> Any:
    return x * 2.0, jnp.float32(2.0)


def weak(x: Any) -> Any:
    return x * 2.0, 2.0


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("reference", "variant", "words"),
    [
        (tables, swapped, "the same program, but another output tree: "),
        (tables, with_none, "the same program, but another output tree: "),
        (strong, weak, "the same program, but another output weak type: out[1] weak_type=False -> True"),
    ],
)
def test_one_program_with_other_outputs(
    reference: Callable[[Any], Any], variant: Callable[[Any], Any], words: str
) -> None:
    compared = samebits.compare_programs(reference, variant, ROWS, target="cpu:1", gradients=False)
    (leaf,) = compared.leaves
    assert leaf.same_order and leaf.verdict is None and leaf.reason.startswith(words)
    assert compared.verdict is None
    same = samebits.compare_programs(reference, lambda x: reference(x), ROWS, target="cpu:1", gradients=False)
    assert same.verdict == "proved"


def test_dtypes_that_no_program_shows() -> None:
    def types(function: Callable[[Any], Any]) -> OutputTypes:
        return OutputTypes.of(jax.jit(function).trace(jax.ShapeDtypeStruct((2,), jnp.uint32)))

    words, key = types(lambda x: x), types(jax.random.wrap_key_data)
    assert words.difference(key) == "another output dtype: out uint32 -> key<fry>"
    assert key.difference(key) is None
