"""Accuracy on arrays that are given: two numbers that nearly cancel in them do not decide it."""

from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np

import samebits
from samebits.host import environment

environment.prepare()

Array = Any
RNG = np.random.default_rng(11)
A, B, C = (RNG.normal(size=shape).astype(np.float32) for shape in ((4, 8), (8, 8), (8, 2)))
CANCELS = np.where(np.arange(8)[:, None] == 5, np.array([0.71, -0.7101]), C).astype(np.float32)


def left(a: Array, b: Array, c: Array) -> Array:
    return (a @ b) @ c


def right(a: Array, b: Array, c: Array) -> Array:
    return a @ (b @ c)


def variance(x: Array) -> Array:
    return jnp.mean((x - x.mean(-1, keepdims=True)) ** 2, -1)


def of_squares(x: Array) -> Array:
    return jnp.mean(x * x, -1) - x.mean(-1) ** 2


def test_products_in_another_order_are_rounding() -> None:
    """A row of c whose sum is nearly zero: one order loses less there, and only there."""
    compared = samebits.check(left, right, A, B, CANCELS)
    assert compared.verdict == "rounding", compared
    assert "no limit is set, false alarm at most 1e-06)" in str(compared)


def test_a_loss_of_accuracy_is_found_in_given_arrays() -> None:
    x = RNG.normal(size=(8, 64)).astype(np.float32) + 30
    compared = samebits.check(variance, of_squares, x, gradients=False)
    assert compared.verdict == "different"
    assert "loses accuracy: error" in str(compared)


def test_a_loss_in_an_outlying_row_is_found() -> None:
    """Its elements stay together in all draws, which therefore are not independent: the verdict does not claim it."""
    x = RNG.normal(size=(8, 64)).astype(np.float32) + 100 * (np.arange(8) == 3)[:, None].astype(np.float32)
    compared = samebits.check(variance, of_squares, x, gradients=False)
    assert compared.verdict == "different"
    assert "draws vary the given arrays" in str(compared)
    assert "false alarm" not in str(compared)


def step(second_moment: Array, x: Array, *, spread: Any) -> Array:
    """A root of what is zero at first and never negative, as in Adam."""
    return spread(x) + jnp.sqrt(second_moment).sum()


def test_a_loss_beside_the_root_of_zeros_is_found() -> None:
    """Of zeros that are drawn with both signs, no sum of roots is a number."""
    zeros, x = np.zeros(64, np.float32), RNG.normal(size=(8, 64)).astype(np.float32) + 30
    compared = samebits.check(
        partial(step, spread=variance), partial(step, spread=of_squares), zeros, x, gradients=False
    )
    assert compared.verdict == "different", compared
    assert "loses accuracy: error" in str(compared)
    exact = partial(step, spread=lambda x: jnp.mean(jnp.square(x - jnp.mean(x, -1, keepdims=True)), -1))
    assert samebits.check(partial(step, spread=variance), exact, zeros, x, gradients=False).ok
