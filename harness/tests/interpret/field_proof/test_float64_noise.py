"""Formulas that differ in the fields and may be equal: rounding by float64 itself, and rounded constants."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from samebits.interpret.field_proof.float64_noise import Excuses
from samebits.interpret.field_proof.proof import FieldIdentity, identity
from samebits.interpret.field_proof.result import BLIND
from tests.interpret.executed import asked

Array = Any
Function = Callable[..., Any]

RNG = np.random.default_rng(11)
X = RNG.uniform(0.3, 2, (4, 6)).astype(np.float32)
NEAR_ONE = (1 + RNG.uniform(1, 9, 24) * 1e-5).astype(np.float32)
LARGE = RNG.uniform(1e8, 1e9, 24).astype(np.float32)


def said(first: Function, second: Function, *args: Any) -> list[FieldIdentity]:
    return list(identity(asked(first, second, *args)).values())


def log_of_a_quotient(a: Array, b: Array) -> Array:
    return jnp.log(a * b) - jnp.log(a)


def test_what_float64_rounds_by_itself_is_undecided() -> None:
    """Of log(a b) - log(a), which is log(b), eleven digits of sixteen are left: the gap is beyond BLIND."""
    (found,) = said(lambda a, b: jnp.log(b), log_of_a_quotient, LARGE, NEAR_ONE)
    assert not found.equal and found.undecided and found.unsure is None
    assert found.gap > BLIND
    # What cancels wholly has no size at all to hold a gap against.
    (found,) = said(lambda a, b: 0 * a, lambda a, b: log_of_a_quotient(a, b) - jnp.log(b), LARGE, NEAR_ONE)
    assert not found.equal and found.undecided


@pytest.mark.parametrize("wrong", [2.0**-22, 1e-5, 1.0])
def test_a_fault_above_what_float64_rounds_is_refuted(wrong: float) -> None:
    """The same forms, wrong by little: a bound that excuses everything would pass these."""
    (found,) = said(lambda a, b: jnp.log(b), lambda a, b: log_of_a_quotient(a, b) * (1 + wrong), LARGE, NEAR_ONE)
    assert not found.equal and not found.undecided
    (found,) = said(lambda a, b: jnp.log(b), lambda a, b: log_of_a_quotient(a, b) + wrong * b, LARGE, NEAR_ONE)
    assert not found.equal and not found.undecided


def test_float64_is_held_against_each_element() -> None:
    """sin(2 x) beside a factor of 1e9 and one of 1e-9: each has the noise of its own size."""
    x, scale = np.array([1.0, 0.5], np.float32), np.array([1e9, 1e-9], np.float32)
    question = asked(lambda x, y: y * jnp.sin(2 * x), lambda x, y: y * 2 * jnp.sin(x) * jnp.cos(x), x, scale)
    noise = Excuses(question).float64.both(question.outputs[0])
    assert noise is not None and 0 < noise[0] < 1e-5 and 0 < noise[1] < 1e-23


def decayed(x: Array, factor: float = 1.0) -> Array:
    found = jnp.zeros(x.shape[0])
    for t in range(x.shape[1]):
        found = 0.9 * found + 0.1 * x[:, t]
    return found * factor


def weighed(weights: Any) -> Function:
    return lambda x: x @ np.asarray(weights, np.float32)


WEIGHTS = 0.1 * 0.9 ** np.arange(5, -1, -1)
WEIGHTS /= WEIGHTS.sum()


def test_rounded_constants_are_undecided_and_named() -> None:
    """A table of weights that add up to one: no literal stands for them, nor any product of two."""
    (found,) = said(lambda x: decayed(x, 1 / 0.468559), weighed(WEIGHTS), X)
    assert not found.equal and found.undecided and found.unsure is not None
    assert "(float32) at field_proof/test_float64_noise.py" in found.unsure, found.unsure


@pytest.mark.parametrize(
    "wrong",
    [
        WEIGHTS * (1 + 1e-6),
        np.where(np.arange(6) == 2, np.nextafter(np.float32(WEIGHTS[2]), np.float32(1)), WEIGHTS) + 1e-7,
        WEIGHTS[::-1],
        0.1 * 0.89 ** np.arange(5, -1, -1),
    ],
)
def test_constants_that_are_no_rounding_are_refuted(wrong: Any) -> None:
    (found,) = said(lambda x: decayed(x, 1 / 0.468559), weighed(wrong), X)
    assert not found.equal and not found.undecided


def test_rounded_constants_excuse_no_other_formula() -> None:
    """An addend that is never rounded, and a literal factor: both are exact."""
    first = lambda x: decayed(x, 1 / 0.468559)  # noqa: E731
    for second in (lambda x: weighed(WEIGHTS)(x) + 1e-5, lambda x: weighed(WEIGHTS)(x) * (1 + 2**-20)):
        (found,) = said(first, second, X)
        assert not found.equal and not found.undecided


def test_results_that_were_stored_are_no_rounded_constants() -> None:
    """What a variant remembers of an earlier call is a table of float32, off by no more than its rounding."""
    wide = X.astype(np.float64)
    table = (0.1 * wide * wide).astype(np.float32)
    slope = (0.1 * wide).astype(np.float32)
    for second in (lambda x: x * 0 + table, lambda x: slope * x):
        (found,) = said(lambda x: 0.1 * x * x, second, X)
        assert not found.equal and not found.undecided
    one = np.full((), 0.71234567, np.float32)  # nothing can be permuted
    factor = np.float32(0.1 * float(one))
    (found,) = said(lambda x: 0.1 * x * x, lambda x: factor * x, one)
    assert not found.equal and not found.undecided


def turned(x: Array, cos: Array, sin: Array) -> Array:
    first, second = jnp.split(x, 2, -1)
    return jnp.concatenate([first * cos - second * sin, second * cos + first * sin], -1)


def angles(xp: Any, rows: int, theta: float = 7000.0) -> Array:
    """Angles of some rows in float32, each off by as much as its own size in float32."""
    return xp.arange(rows, dtype=np.float32)[:, None] * (
        np.float32(1) / np.float32(theta) ** np.array([0.25, 0.5], np.float32)
    )


@pytest.mark.slow
@pytest.mark.parametrize(("theta", "excused"), [(7000.0, True), (7001.0, False)])
def test_a_table_is_as_good_as_the_program_that_computes_it(theta: float, excused: bool) -> None:
    """Row 47: an angle of 5 is off by 2e-7 in float32, and no half unit of its sine is."""
    x = RNG.uniform(0.3, 2, (48, 4)).astype(np.float32)
    table = np.cos(angles(np, 48)), np.sin(angles(np, 48))
    (found,) = said(
        lambda x: turned(x, *table),
        lambda x: turned(x, jnp.cos(angles(jnp, 48, theta)), jnp.sin(angles(jnp, 48, theta))),
        x,
    )
    assert found.equal or found.undecided == excused, found.witness
    assert excused or not found.equal
