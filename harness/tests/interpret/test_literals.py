"""Which number a literal represents: a decimal that rounds to it in its dtype, the shortest one where there is one."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from samebits.interpret import literals
from samebits.interpret.field.domain import Field
from samebits.interpret.field.residues import PRIMES
from samebits.interpret.field_proof.proof import identity
from samebits.interpret.literals import SIMPLE, SurdLiteral
from tests.interpret.executed import asked
from tests.interpret.programs import few

DTYPES = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float32": np.float32, "float64": np.float64}
SIMPLE_ONES = [Fraction(p, q) for q in range(1, 41) for p in range(1, 41) if math.gcd(p, q) == 1]


def rounded(value: float, dtype: str) -> float:
    with np.errstate(over="ignore"):
        return float(np.array(value).astype(DTYPES[dtype]))


def stands(value: float, dtype: str) -> SurdLiteral:
    return literals.number.__wrapped__(value, dtype)


def numbers() -> st.SearchStrategy[float]:
    """Any float, and those near simple fractions and their roots."""
    simple = st.fractions(min_value=-4, max_value=4, max_denominator=300).map(float)
    roots = st.fractions(min_value=0, max_value=300, max_denominator=300).map(lambda f: math.sqrt(f))
    ulps = st.integers(-2, 2)
    near = st.tuples(st.one_of(simple, roots), ulps).map(lambda pair: pair[0] * (1 + pair[1] * 2**-23))
    return st.one_of(near, st.floats(-1e30, 1e30), simple, roots)


def check_rounds_back(value: float, dtype: str) -> None:
    """So two literals of one dtype never stand for the same number."""
    literal = rounded(value, dtype)
    if math.isfinite(literal):
        found = stands(literal, dtype)
        assert rounded(float(found), dtype) == literal, (literal, found)
        assert found.radicand == 1 or found.rational * found.rational * found.radicand <= SIMPLE**2


@few(400)
@given(value=numbers(), dtype=st.sampled_from(sorted(DTYPES)))
@example(value=1e-6, dtype="float32")
@example(value=1.0001e-6, dtype="float32")
@example(value=-0.0, dtype="float32")
@example(value=1e-45, dtype="float32")
@example(value=65504.0, dtype="float16")
def test_a_number_rounds_to_its_literal(value: float, dtype: str) -> None:
    check_rounds_back(value, dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_rounded_fraction_stands_for_the_fraction(dtype: str) -> None:
    for fraction in SIMPLE_ONES:
        for sign in (1, -1):
            assert stands(rounded(float(sign * fraction), dtype), dtype) == SurdLiteral(sign * fraction)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_rounded_root_stands_for_the_root(dtype: str) -> None:
    for fraction in SIMPLE_ONES:
        found = stands(rounded(math.sqrt(fraction), dtype), dtype)
        assert found.rational * found.rational * found.radicand == fraction


def test_neighbours_stand_for_themselves() -> None:
    """One ulp beside a simple number is another number, and so is what a reader would take for the same."""
    for value in (1 / 3, 0.1, 1e-6, 8**-0.5, 0.044715):
        literal = np.float32(value)
        for neighbour in (np.nextafter(literal, 2, dtype=np.float32), np.nextafter(literal, -2, dtype=np.float32)):
            assert stands(float(neighbour), "float32") == SurdLiteral(Fraction(float(neighbour)))
    for first, second in ((1e-6, 1.0001e-6), (1e-5, 1e-6), (0.7071068, 0.7071), (0.33333334, 0.3333)):
        assert stands(float(np.float32(first)), "float32") != stands(float(np.float32(second)), "float32")


def test_a_literal_is_one_number_in_several_dtypes() -> None:
    for value in (1 / 3, 0.1, 1 / 7, 8**-0.5, 0.5, 3.0):
        found = {stands(rounded(value, dtype), dtype) for dtype in ("float32", "float64")}
        assert len(found) == 1, (value, found)


@pytest.mark.parametrize(
    "square", [Fraction(8), Fraction(1, 8), Fraction(64), Fraction(50, 3), Fraction(6), Fraction(1)]
)
def test_a_root_has_no_squares_left(square: Fraction) -> None:
    found = literals.root(square)
    assert found.rational**2 * found.radicand == square and found.rational > 0
    assert all(found.radicand % (factor * factor) for factor in range(2, 20))


@pytest.mark.parametrize("extended", [False, True])
def test_the_residues_of_roots_multiply_as_the_roots_do(extended: bool) -> None:
    """Modulo the first prime, for every head width up to 24 times a square; the others have a root of some."""
    domain = Field(extended=extended)

    def root(square: int, p: int) -> int:
        return domain.constant(literals.root(Fraction(square)), p)

    p = PRIMES[0]
    for square in (2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 15, 21, 24, 32, 64, 72, 96, 128, 192):
        assert root(square, p) ** 2 % p == square
    for p in PRIMES:
        assert root(6, p) == root(2, p) * root(3, p) % p and root(8, p) == 2 * root(2, p) % p
        assert domain.constant(SurdLiteral(Fraction(1, 3)), p) * 3 % p == 1
        assert domain.constant(SurdLiteral(Fraction(-5, 4)), p) * 4 % p == p - 5


# -- planted faults

FAULTS: dict[str, Callable[[], Any]] = {
    "anything close is simple": lambda: SurdLiteral(Fraction(0.1001).limit_denominator(SIMPLE)),
    "the sign is lost": lambda: SurdLiteral(Fraction(1, 3)),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_the_literals_is_noticed(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    value = {"anything close is simple": 0.1001, "the sign is lost": -1 / 3}[fault]
    check_rounds_back(value, "float32")
    wrong = FAULTS[fault]()
    monkeypatch.setattr(literals, "number", type("", (), {"__wrapped__": staticmethod(lambda value, dtype: wrong)}))
    with pytest.raises(AssertionError):
        check_rounds_back(value, "float32")


@pytest.mark.parametrize(("dtype", "digits"), [("float32", 6), ("float64", 15)])
def test_a_rounded_decimal_stands_for_the_decimal(dtype: str, digits: int) -> None:
    for shown in ("0.999", "0.044715", "1e-6", "-0.0123", "123457000", "0.999999999999999"[: digits + 2]):
        assert stands(rounded(float(shown), dtype), dtype) == SurdLiteral(Fraction(shown)), shown
    assert stands(rounded(0.1234567, "float32"), "float32") == SurdLiteral(Fraction(rounded(0.1234567, "float32")))


def test_what_was_computed_stands_for_a_decimal_within_the_noise() -> None:
    assert literals.standing(1 - 0.9**2, "float64") == SurdLiteral(Fraction(19, 100))
    assert literals.standing(1 - 0.9**11, "float32") == SurdLiteral(Fraction("0.68618940391"))
    assert literals.standing(0.19 * (1 + 1e-13), "float64") != SurdLiteral(Fraction(19, 100))
    assert literals.standing(math.pi, "float64") == SurdLiteral(Fraction(math.pi))


# --- decimals that Python computed from others, such as 1 - 0.9, are made of their parts; their neighbours are not ---

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
