"""The degree bounds of a proof, compared with the degrees of the functions along a random line.

On a line every value is a fraction of two polynomials of one variable, and whether there is one within the bounds is a
linear question: N(t) - f(t) L(t) = 0 at more points than N and L have coefficients.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from jax import lax

from samebits.errors import NotCovered
from samebits.interpret.equation import Type
from samebits.interpret.field import arithmetic, residues
from samebits.interpret.field import element as degrees
from samebits.interpret.field.domain import Field
from samebits.interpret.field.element import (
    CONSTANT,
    VARIABLE,
    DegreeBounds,
    FieldElement,
    rounded_off,
    sum_reach,
    together,
)
from samebits.interpret.field.residues import PRIMES
from samebits.interpret.field_proof.result import ENOUGH, error_bound
from samebits.interpret.interpreter import Interpreter
from tests.interpret.programs import Tape, few
from tests.interpret.rewrites import Formula, formula

Function = Callable[..., Any]

P = PRIMES[0]
POINTS = 36
SHAPE = (3,)


def on_a_line(seed: int) -> tuple[Field, list[FieldElement]]:
    """Inputs of three elements each, every point of the domain at another place of one random line."""
    domain = Field(repetitions=POINTS, levels=1)
    t = np.arange(1, POINTS + 1)[:, None]
    elements = []
    for k in range(3):
        start, along = (residues.draw(SHAPE, P, "line", str(seed), str(k), what) for what in ("start", "along"))
        part = residues.add(start[None], residues.multiply(t, along[None], P), P)
        shadow = np.random.default_rng([seed, k]).uniform(0.5, 2, SHAPE)
        elements.append(FieldElement((part,), shadow, VARIABLE))
    return domain, elements


def has_degrees(values: Any, top: int, bottom: int) -> bool:
    """Whether some N / L within these degrees takes these values at the points 1, 2, 3, ...; else none does."""
    width = top + bottom + 2
    assert len(values) >= width + 2
    rows = []
    for t, value in enumerate(values.tolist(), 1):
        powers = [pow(t, k, P) for k in range(max(top, bottom) + 1)]
        rows.append(powers[: top + 1] + [-value * power % P for power in powers[: bottom + 1]])
    for column in range(width):  # all columns before this one are independent
        pivot = next((row for row in range(column, len(rows)) if rows[row][column]), None)
        if pivot is None:
            return True  # it depends on them: a solution
        rows[column], rows[pivot] = rows[pivot], rows[column]
        inverse = pow(rows[column][column], -1, P)
        for row in range(column + 1, len(rows)):
            factor = rows[row][column] * inverse % P
            if factor:
                rows[row] = [(x - factor * y) % P for x, y in zip(rows[row], rows[column], strict=True)]
    return False


def interpreted(function: Function, seed: int = 0) -> list[FieldElement]:
    domain, elements = on_a_line(seed)
    program = jax.make_jaxpr(function)(*(element.shadow for element in elements))
    return [out for out in Interpreter(domain)(program, *elements) if isinstance(out, FieldElement)]


def bounds_hold(function: Function, seed: int = 0, *, closer: tuple[int, int] = (0, 0)) -> bool:
    """Whether every element of every output has the degrees that its bounds say, of all and of one; `closer`: less."""
    for out in interpreted(function, seed):
        for top, bottom in {(out.degree.top, out.degree.bottom), out.degree.one}:
            if top + bottom + 4 <= POINTS:
                for values in out.parts[0].reshape(POINTS, -1).T:
                    if not has_degrees(values, top - closer[0], bottom - closer[1]):
                        return False
    return True


def rational(node: Formula) -> bool:
    return node.operation != "exp" and all(rational(part) for part in node.parts)


@few(30)
@given(tape=st.binary(min_size=60, max_size=60))
def test_no_formula_has_larger_degrees_than_its_bounds(tape: bytes) -> None:
    node = formula(Tape(tape), 3)
    assume(rational(node))
    try:
        outputs = interpreted(node)
    except NotCovered:
        assume(False)
    assume(any(out.degree.largest > 0 and out.degree.top + out.degree.bottom + 4 <= POINTS for out in outputs))
    assert bounds_hold(node)


TIGHT: dict[str, tuple[Function, int, int]] = {
    "x": (lambda x, y, z: x, 1, 0),
    "a constant": (lambda x, y, z: x * 0 + 3, 1, 0),
    "x y z": (lambda x, y, z: x * y * z, 3, 0),
    "x^7": (lambda x, y, z: x**7, 7, 0),
    "x^2 y + z": (lambda x, y, z: x * x * y + z, 3, 0),
    "a sum": (lambda x, y, z: jnp.sum(x * y), 2, 0),
    "a product": (lambda x, y, z: jnp.prod(x), 3, 0),
    "a running product": (lambda x, y, z: jnp.cumprod(x * y)[-1:], 6, 0),
    "a dot": (lambda x, y, z: x @ y, 2, 0),
    "1 / x": (lambda x, y, z: (1 / x)[:1], 2, 3),
    "1 / one x": (lambda x, y, z: 1 / x[:1], 0, 1),
    "x / one y": (lambda x, y, z: x / y[:1], 1, 1),
    "x^-2": (lambda x, y, z: x[:1] ** -2, 0, 2),
    "1 / x + 1 / y": (lambda x, y, z: 1 / x[:1] + 1 / y[:1], 1, 2),
    "1 / (1 / x + y)": (lambda x, y, z: 1 / (1 / x[:1] + y[:1]), 1, 2),
    "a choice": (lambda x, y, z: jnp.where(x > 0, x * y, z)[:1], 2, 0),
    "gathered": (lambda x, y, z: jnp.concatenate([x * y, z])[np.array([0, 4])], 2, 0),
    "added at": (lambda x, y, z: jnp.zeros(2).at[np.array([0, 0, 1])].add(x * y), 2, 0),
    "a scan": (lambda x, y, z: lax.scan(lambda c, row: (c * row, c), z[0], x)[0], 4, 0),
}


@pytest.mark.parametrize("name", TIGHT)
def test_the_bounds_of_single_operations(name: str) -> None:
    function, top, bottom = TIGHT[name]
    (out,) = interpreted(function)
    assert (out.degree.top, out.degree.bottom, out.degree.largest) == (top, bottom, max(top, bottom))
    assert bounds_hold(function)


EACH: dict[str, tuple[Function, int, int]] = {
    "1 / x": (lambda x, y, z: 1 / x, 0, 1),
    "x / y + z": (lambda x, y, z: x / y + z, 2, 1),
    "1 / x - 1 / y": (lambda x, y, z: 1 / x - 1 / y, 1, 2),
    "neighbours": (lambda x, y, z: 1 / x - (1 / x)[::-1] * y, 2, 2),
    "a choice": (lambda x, y, z: jnp.concatenate([1 / x, y / z]), 1, 1),
    "a cube": (lambda x, y, z: (x / y) ** 3, 3, 3),
    "one over a sum": (lambda x, y, z: 1 / (1 / x + y), 1, 2),
    "a sum of all": (lambda x, y, z: jnp.sum(1 / x), 2, 3),
    "a dot": (lambda x, y, z: (1 / x) @ y, 3, 3),
    "a running sum": (lambda x, y, z: jnp.cumsum(1 / x), 2, 3),
    "added at": (lambda x, y, z: jnp.zeros(1).at[np.array([0, 0, 0])].add(1 / x), 3, 3),
}


@pytest.mark.parametrize("name", EACH)
def test_the_bounds_of_one_element_by_itself(name: str) -> None:
    function, top, bottom = EACH[name]
    (out,) = interpreted(function)
    assert out.degree.one == (top, bottom) and out.degree.of_few <= out.degree.largest
    assert bounds_hold(function)


def test_sums_that_share_no_denominators_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(degrees.DegreeBounds, "mixed", property(lambda self: self))
    assert not any(bounds_hold(EACH[name][0]) for name in ("a sum of all", "a dot", "a running sum", "added at"))


@pytest.mark.parametrize(
    "name", ["x", "x y z", "x^7", "x^2 y + z", "a sum", "a product", "a dot", "a running product", "1 / one x"]
)
def test_a_bound_that_is_one_too_small_is_noticed(name: str) -> None:
    function, top, bottom = TIGHT[name]
    if top:
        assert not bounds_hold(function, closer=(1, 0))
    if bottom:
        assert not bounds_hold(function, closer=(0, 1))


def _larger(self: DegreeBounds, other: DegreeBounds) -> DegreeBounds:
    return DegreeBounds(max(self.top, other.top), {**self.below, **other.below})


@pytest.mark.parametrize(
    ("name", "wrong", "function"),
    [
        ("__mul__", _larger, lambda x, y, z: x * y * z),
        ("power", lambda self, exponent: self, lambda x, y, z: x**5),
        ("divided", lambda self, key, count: DegreeBounds(self.bottom, {}), lambda x, y, z: x / y),
        ("one", property(lambda self: self.each or (self.top, self.top)), lambda x, y, z: jnp.sum(1 / x)),
    ],
)
def test_a_fault_of_the_degrees_is_noticed(
    name: str, wrong: Function, function: Function, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert bounds_hold(function)
    monkeypatch.setattr(degrees.DegreeBounds, name, wrong)
    assert not bounds_hold(function)


def test_a_sum_over_one_denominator_and_over_two() -> None:
    one, other = (VARIABLE.divided(key, 1) for key in (1, 2))
    assert (one.top, one.bottom) == (0, 1)
    assert together([one, one]) == one
    assert (together([one, other]).top, together([one, other]).bottom) == (1, 2)
    assert (one * one).bottom == 2 and together([one * one, one]).top == 1
    assert together([]).largest == 0 and CONSTANT.divided(3, 100).largest == 0


def test_the_error_bound_depends_on_degree_and_points() -> None:
    domain = Field(levels=1)
    p = math.log2(P)
    for degree, points in ((1, 1), (5, 1), (5, 2), (1000, 3)):
        assert error_bound(domain, degree, points) == pytest.approx(points * (math.log2(degree) - p), abs=1e-6)
    assert error_bound(domain, 0, 1) == -math.inf and error_bound(domain, 2 * P, 1) == 0.0
    plain = error_bound(domain, 3, 2)
    domain.unknown("tanh", [np.zeros((2, 1000), np.int64)], np.zeros(1000), DegreeBounds(50))
    assert plain < error_bound(domain, 3, 2) <= ENOUGH
    domain.calls["exp with its law"] = (10**4, 10)
    assert error_bound(domain, 3, 2) > error_bound(domain, 3, 3) > error_bound(domain, 3, 4)


def exponentials(*, nested: bool) -> Field:
    """A domain that was asked for the exponentials of two arrays of a million elements each."""
    domain, each = Field(repetitions=1, levels=3), Type((1,), np.dtype(np.float32))
    wide = np.broadcast_to
    values = [domain.input(name, np.ones(1), each) for name in "xy"]
    if nested:
        values = [arithmetic.exp(domain, value) for value in values]
    many = [
        FieldElement(tuple(wide(part, (1, 10**6)) for part in value.parts), wide(value.shadow, 10**6), value.degree)
        for value in values
    ]
    for value in many:
        arithmetic.exp(domain, value)
    return domain


def test_exponentials_are_counted_beside_those_of_one_monomial() -> None:
    """Of 2 * 10^6 a formula of degree 10 multiplies 10, which makes 2 * 10^7 pairs; where they are nested 4 * 10^12."""
    prime = math.log2(PRIMES[2])
    assert error_bound(exponentials(nested=False), 10, 1) == pytest.approx(math.log2(10 + 2e7) - prime, abs=1e-3)
    assert error_bound(exponentials(nested=True), 10, 1) == pytest.approx(math.log2(4e12) - prime, abs=1e-3)


@pytest.mark.parametrize("factors", [1, 4, 9])
def test_formulas_of_exponentials_vanish_no_more_than_bounded(factors: int) -> None:
    """(y0 - y1) (y0 - y2) ... of y = G(x) modulo 97 is 0 where another input, or what G gives for it, meets the first.

    The exponential stands for a random function of distinct inputs. Without the pairs the bound would be too low.
    """
    small, tries = 97, 200_000
    rng = np.random.default_rng(factors)
    x = rng.integers(0, small, (tries, factors + 1))
    table = rng.integers(0, small, (tries, small), dtype=np.int8)
    y = np.take_along_axis(table, x, 1)
    often = float(np.mean(np.any(y[:, :1] == y[:, 1:], 1)))
    assert factors / small < often <= (factors + factors * (factors + 1)) / small


def test_unknown_functions_of_exponentials_need_more_points() -> None:
    """Two arguments may agree at one point by themselves, and at the other as two exponentials meet there."""
    domain = Field(levels=3)
    domain.nested = True
    domain.calls |= {"exp with its law": (2**20, 4), "tanh": (2**10, 8)}
    prime, pairs = PRIMES[2], 2**19
    meets = 2**42 / prime
    mixed = 2 * meets * (pairs * 16 / prime)
    assert error_bound(domain, 0, 2) == pytest.approx(math.log2(meets**2 + mixed + pairs * (16 / prime) ** 2), abs=1e-6)


def test_a_degree_beyond_every_float_is_no_error_bound() -> None:
    """Layers that square what they are given double the degree each time: many of them leave no float for it."""
    domain = Field(levels=1)
    assert error_bound(domain, 10**400, 3) == 0.0
    domain.calls["tanh"] = (5, 10**400)
    assert error_bound(domain, 3, 40) == 0.0
    domain.calls["tanh"] = (5, 10**30)
    assert error_bound(domain, 3, 40) == 0.0
    del domain.calls["tanh"]
    domain.calls["exp with its law"] = (5, 10**400)
    assert error_bound(domain, 3, 3) == 0.0


# How large the numbers are that a sum was added up from, where float64 does not show it.
def number(value: float, reach: float | None = None) -> FieldElement:
    """An element of one number."""
    size = None if reach is None else np.array([reach])
    return FieldElement((np.zeros((1, 1), np.int64),), np.array([value]), DegreeBounds(1), size)


@pytest.mark.parametrize(
    ("first", "second", "reach"),
    [
        (1.0, 2.0, 0.0),
        (1.0, 1e-70, 3.0),
        (1e-70, 1.0, 3.0),
        (-1.0, 1e-70, 3.0),
        (1.0, 0.0, 0.0),
        (0.5, 0.25, 0.3125**0.5),
    ],
)
def test_a_term_that_leaves_no_trace_is_no_exact_sum(first: float, second: float, reach: float) -> None:
    found = sum_reach(np.array([first + second]), number(first), number(second))
    assert float(np.broadcast_to(found, (1,))[0]) == pytest.approx(reach)


def test_a_difference_from_what_was_rounded_is_no_exact_zero() -> None:
    assert not np.any(sum_reach(np.zeros(1), number(1.0), number(-1.0)))
    assert np.all(sum_reach(np.zeros(1), number(1.0), number(-1.0, 3.0)) > 3)


def test_what_is_rounded_to_a_whole_number_has_a_reach() -> None:
    shadow = np.array([1.0, 0.5])
    assert rounded_off(shadow, np.array([False, False]), None) is None
    reach = rounded_off(shadow, np.array([True, False]), None)
    assert reach is not None and reach.tolist() == [3.0, 0.5]
