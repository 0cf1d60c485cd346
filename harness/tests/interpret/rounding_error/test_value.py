"""A number with bounds names the operation with the largest error of its own."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from samebits.interpret.interpreter import Interpreter
from samebits.interpret.rounding_error.domain import RoundingDomain
from samebits.interpret.rounding_error.value import exactly, lifted

X = np.linspace(0.1, 1, 16, dtype=np.float32)


def cut(x: Any) -> Any:
    return x.astype(jnp.bfloat16).astype(jnp.float32)


def product(x: Any) -> Any:
    """The cast loses 2^-9, the sum of 16 terms 2^-20, and their product 2^-24."""
    return cut(x) * jnp.sum(x)


def exchanged(x: Any) -> Any:
    return jnp.sum(x) * cut(x)


@pytest.mark.parametrize("function", [product, exchanged])
def test_the_largest_of_several_errors_is_named(function: Callable[[Any], Any]) -> None:
    (found,) = Interpreter(RoundingDomain("cpu"), "cpu")(jax.make_jaxpr(function)(X), lifted(X))
    assert found.loses_most is not None and found.loses_most.startswith("convert_element_type[bfloat16] at "), found


def test_where_nothing_rounds_nothing_is_named() -> None:
    assert exactly(X).loses_most is None
