"""Decimals that Python computed from others, such as 1 - 0.9, are made of their parts; their neighbours are not."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from samebits.interpret.field_proof.proof import identity
from tests.interpret.executed import asked

Array = Any
Function = Callable[[Array], Array]
F = np.float32

X = np.random.default_rng(3).uniform(0.3, 2, (4, 8)).astype(np.float32)


def mean_of_two(x: Array) -> Array:
    """A moving average, divided by one less a power of 0.9, which the program computes."""
    return (0.9 * x + 0.1 * x[::-1]) / (1 - 0.9 ** jnp.arange(1, x.shape[-1] + 1, dtype=jnp.float32))


def by_literals(x: Array, powers: tuple[int, ...] = (1, 2, 3, 4, 5, 6, 7, 8)) -> Array:
    """The same, where Python computes it."""
    return (x + 0.1 * (x[::-1] - x)) / np.array([1 - 0.9**t for t in powers], np.float32)


FOLDED: dict[str, tuple[Function, Function, bool]] = {
    "one less a thousandth": (lambda x: x - 0.001 * x, lambda x: x * (1 - 0.01 * 0.1), True),
    "a rate of four digits": (lambda x: 0.9995 * x + 0.0005 * x[::-1], lambda x: x + 0.0005 * (x[::-1] - x), True),
    "powers of nine tenths": (mean_of_two, by_literals, True),
    "a millionth more": (lambda x: x - 0.001 * x, lambda x: x * 0.999001, False),
    "one ulp": (lambda x: x - 0.001 * x, lambda x: x * np.nextafter(F(0.999), F(1)), False),
    "powers one step late": (mean_of_two, lambda x: by_literals(x, tuple(range(2, 10))), False),
}
"""By name: a program with constants, one with what Python makes of them, and whether they are equal."""


@pytest.mark.parametrize("name", FOLDED)
def test_a_decimal_that_python_computed_is_made_of_its_parts(name: str) -> None:
    reference, variant, equal = FOLDED[name]
    assert identity(asked(reference, variant, X))["out"].equal == equal
