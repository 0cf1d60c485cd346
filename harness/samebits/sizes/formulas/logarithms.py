"""Logarithms of formulas: factors come out, so that the logarithms of a sum and of its multiples meet."""

from __future__ import annotations

from fractions import Fraction

from samebits.sizes.formulas.formula import (
    Base,
    Exponential,
    Formula,
    NoFormula,
    Powers,
    Summand,
    atom,
    number,
)
from samebits.sizes.formulas.ring import FormulaRing

MOST_CHOICES = 4
"""The most summands of a sum each of which may be the one that it is divided by."""


def logarithm(ring: FormulaRing, formula: Formula) -> Formula:
    """The logarithm; exponentials and sizes that are factors come out of it.

    Args:
        ring: of the formula.
        formula: any.

    Raises:
        NoFormula: it is 0 or infinite.
    """
    if formula.infinite or not formula.summands:
        raise NoFormula("the logarithm of 0 or infinity")
    common, rest = ring.content(formula, positive=True)
    factor, powers = (Fraction(1), ()) if common is None else (common.factor, common.powers)
    rest, divisors = _multiplied_out(ring, rest)
    rest, more = _over_one(ring, rest)
    total = [] if rest == number(1) else [ring.function("log", rest)]
    total += [ring.function("log", number(factor))] if factor != 1 else []
    for value, power in (*powers, *more):
        own = value.exponent if isinstance(value, Exponential) else ring.function("log", atom(value))
        total.append(ring.scaled(own, power))
    total += [ring.scaled(logarithm(ring, base), exponent) for base, exponent in divisors]
    return ring.add(*total)


def _multiplied_out(ring: FormulaRing, formula: Formula) -> tuple[Formula, list[tuple[Formula, Fraction]]]:
    """A sum times the positive sums that its summands are divided by, and these with their exponents in it."""
    lowest: dict[Base, Fraction] = {}
    for summand in formula.summands:
        for value, exponent in ring.shareable(summand, positive=False).items():
            if isinstance(value, Base) and exponent < 0 and ring.is_positive(value.formula):
                lowest[value] = min(lowest.get(value, exponent), exponent)
    divisors = [(value.formula, exponent) for value, exponent in lowest.items() if exponent.denominator == 1]
    for base, exponent in divisors:
        formula = ring.multiply(formula, ring.power(base, -exponent))
    return formula, divisors


def _over_one(ring: FormulaRing, formula: Formula) -> tuple[Formula, Powers]:
    """A sum over the exponentials of one summand, and these: the same sum for all multiples of it by exponentials."""
    choices: dict[Powers, Formula] = {(): formula}
    for summand in formula.summands if len(formula.summands) <= MOST_CHOICES else ():
        shared = ring.shareable(summand, positive=True)
        own = tuple((value, exponent) for value, exponent in shared.items() if isinstance(value, Exponential))
        divisor = Formula((Summand(powers=tuple((value, -exponent) for value, exponent in own)),))
        choices[own] = ring.multiply(divisor, formula)
    powers, rest = min(choices.items(), key=lambda choice: str(ring.canonical(choice[1])))
    return rest, powers
