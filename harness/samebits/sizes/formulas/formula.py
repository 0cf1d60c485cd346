"""Formulas in a normal form: sums of products of powers, each product summed over bound indices where facts hold.

A product is pushed into its sums and a sum out of its products, so that the order of sums, factors that are pulled out
and axes that are summed one after another leave no trace.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from samebits.sizes.places.facts import Element, Facts, Source
from samebits.sizes.places.polynomial import Polynomial, of


class NoFormula(Exception):
    """What stands at a place is not a formula over the reals, such as infinity less infinity."""


@dataclass(frozen=True)
class Size:
    """A polynomial of sizes and indices as a real number; in denominators, and under roots."""

    polynomial: Polynomial


@dataclass(frozen=True)
class Function:
    """A function of which no law is known: equal results of equal operands."""

    operation: str
    operands: tuple[Formula, ...]


@dataclass(frozen=True)
class Exponential:
    """The exponential of a single product with factor 1; as it is positive, all its powers are known."""

    exponent: Formula


@dataclass(frozen=True)
class Base:
    """A sum that stands in a denominator or under a root."""

    formula: Formula


@dataclass(frozen=True)
class Extreme:
    """The largest or smallest of formulas over bound indices.

    Args:
        kind: `max` or `min`.
        bound: the indices.
        cases: where facts hold, the formula.
    """

    kind: str
    bound: tuple[str, ...]
    cases: tuple[tuple[Facts, Formula], ...]


@dataclass(frozen=True)
class Opaque:
    """A source that is not looked into."""

    source: Source


@dataclass(frozen=True)
class Infinite:
    """Plus infinity."""


Atom = Element | Size | Function | Exponential | Base | Extreme | Opaque | Infinite
Powers = tuple[tuple[Atom, Fraction], ...]
INFINITY: Powers = ((Infinite(), Fraction(1)),)
ONE = of(1)


@dataclass(frozen=True)
class Summand:
    """A product, summed over bound indices where facts hold.

    Args:
        factor: a rational number; not 0.
        number: a polynomial of sizes and indices.
        powers: each atom once.
        bound: the indices, each below its size.
        facts: what holds of the places that are summed.
    """

    factor: Fraction = Fraction(1)
    number: Polynomial = ONE
    powers: Powers = ()
    bound: tuple[str, ...] = ()
    facts: Facts = ()


@dataclass(frozen=True)
class Formula:
    """A sum of summands; 0 of none."""

    summands: tuple[Summand, ...] = ()

    @property
    def infinite(self) -> bool:
        """Tell whether it is plus or minus infinity."""
        return any(summand.powers == INFINITY for summand in self.summands)


ZERO = Formula()


def number(value: Fraction | int) -> Formula:
    """Return a rational number."""
    return Formula((Summand(Fraction(value)),)) if value else ZERO


def polynomial(value: Polynomial) -> Formula:
    """Return a polynomial of sizes and indices as a real number."""
    if value.constant is not None:
        return number(value.constant)
    return Formula((Summand(number=value),))


def atom(value: Atom) -> Formula:
    """Return a single atom."""
    return Formula((Summand(powers=((value, Fraction(1)),)),))


def depth(formula: Formula) -> int:
    """Return how deep sums are nested in atoms; bound indices are named by it."""
    return max((1 + _inner(value) for summand in formula.summands for value, _ in summand.powers), default=0)


def _inner(value: Atom) -> int:
    return max(map(depth, inner_formulas(value)), default=-1)


def inner_formulas(value: Atom) -> tuple[Formula, ...]:
    """Return the formulas that an atom is made of."""
    match value:
        case Function(operands=operands):
            return operands
        case Exponential(exponent=formula) | Base(formula=formula):
            return (formula,)
        case Extreme(cases=cases):
            return tuple(formula for _, formula in cases)
    return ()
