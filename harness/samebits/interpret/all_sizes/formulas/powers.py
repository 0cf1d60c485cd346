"""Powers in products: which are numbers, which cancel, and in which order they stand."""

from __future__ import annotations

import math
from fractions import Fraction

from samebits.interpret.all_sizes.formulas.formula import Atom, Base, Exponential, Formula, Size, Summand
from samebits.interpret.all_sizes.polynomial import Polynomial, of
from samebits.interpret.all_sizes.space import Space
from samebits.interpret.literals import SurdLiteral, root


def is_product(formula: Formula) -> bool:
    """Whether a formula is a single product without a sum."""
    return len(formula.summands) == 1 and not formula.summands[0].bound and not formula.summands[0].facts


def number_in(value: Atom) -> Fraction | None:
    """The number that a base is; None of any other atom."""
    if not isinstance(value, Base) or len(value.formula.summands) != 1:
        return None
    (only,) = value.formula.summands
    return only.factor if only == Summand(only.factor) else None


def square_in(formula: Formula) -> SurdLiteral | None:
    """The root of a number that a square divides, or that is a fraction; None of any other formula."""
    (only, *more) = formula.summands
    if more or only != Summand(only.factor) or only.factor <= 0:
        return None
    rooted = root(only.factor)
    return None if rooted.rational == 1 else rooted


def size_power(size: Polynomial, exponent: Fraction) -> list[tuple[Atom, Fraction]]:
    """A power of a polynomial of sizes; of 1, nothing."""
    return [(Size(size), exponent)] if size != of(1) else []


def cancelled(size: Polynomial, powers: list[tuple[Atom, Fraction]]) -> tuple[Polynomial, list[tuple[Atom, Fraction]]]:
    """A numerator and powers without the sizes that are in both."""
    kept = []
    for value, exponent in powers:
        while isinstance(value, Size) and exponent <= -1:
            quotient = size.quotient(value.polynomial)
            if quotient is None:
                break
            size, exponent = quotient, exponent + 1
        if exponent:
            kept.append((value, exponent))
    return size, kept


def common_factor(factors: list[Fraction]) -> Fraction:
    """The largest rational number of which all factors are whole multiples."""
    if len(factors) == 1:
        return factors[0]
    return Fraction(math.gcd(*(f.numerator for f in factors)), math.lcm(*(f.denominator for f in factors)))


def order(power: tuple[Atom, Fraction]) -> tuple[str, str]:
    """Where a power stands among those of a product."""
    return type(power[0]).__name__, str(power)


def is_positive_atom(space: Space, value: Atom) -> bool:
    """Whether an atom is above 0 for sure, so that it comes out of a root: an exponential, or a size."""
    return isinstance(value, Exponential) or (isinstance(value, Size) and space.proves((), value.polynomial - 1))
