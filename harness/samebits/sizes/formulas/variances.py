"""Which of two numbers is the larger one, where they differ by squares or by a variance.

Layers cut a variance off at 0, `max(0, E[x^2] - E[x]^2)`, since rounding may make it negative; over the reals it never
is. Source: the Cauchy-Schwarz inequality: the square of a sum of N numbers is at most N times the sum of their squares.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction

from samebits.sizes.formulas.formula import Formula, NoFormula, number, polynomial
from samebits.sizes.formulas.ring import FormulaRing
from samebits.sizes.places.facts import Facts, MapPiece, Number, Reduction, Source, Term
from samebits.sizes.places.polynomial import of

FormulaOf = Callable[[Source, Facts], Formula]
Equal = Callable[[Formula, Formula, Facts], bool]


class Variances:
    """Shows that differences of numbers are squares or variances.

    Args:
        ring: of the formulas.
        formula: of a source, where facts hold.
        equal: whether two formulas are shown to be one, where facts hold.
    """

    def __init__(self, ring: FormulaRing, formula: FormulaOf, equal: Equal) -> None:
        self._ring = ring
        self._formula = formula
        self._equal = equal

    def larger(self, operands: tuple[Source, ...], facts: Facts) -> int | None:
        """Which of two numbers is at least the other one at all places, 0 or 1; None where that is not shown."""
        first, second = (self._formula(operand, facts) for operand in operands)
        if first.infinite or second.infinite:
            return None
        for larger, difference in enumerate((self._ring.subtract(first, second), self._ring.subtract(second, first))):
            if self._ring.is_positive(difference) or any(
                self._equal(difference, spread, facts)
                for operand in operands
                for spread in self._spreads(operand, facts)
            ):
                return larger
        return None

    def _spreads(self, source: Source, facts: Facts) -> Iterator[Formula]:
        """The variances of what sums of squares in a source are of, and these times their counts: never negative."""
        for squares in sums_of_squares(source):
            places = of(1)
            for name in squares.bound:
                places = places * self._ring.space.ranges[name]
            try:
                mean = self._ring.power(polynomial(places), Fraction(-1))
                total = self._formula(replace(squares, pieces=_roots(squares)), facts)
                of_mean = self._ring.multiply(self._ring.multiply(total, total), mean)
                spread = self._ring.subtract(self._formula(squares, facts), of_mean)
                for factor in (mean, number(1)):
                    yield self._ring.multiply(spread, factor)
            except NoFormula:  # an infinity, or too many products
                continue


def sums_of_squares(source: Source) -> Iterator[Reduction]:
    """The sums of squares that a source is computed of, without those inside of other sums."""
    if isinstance(source, Reduction):
        if source.kind == "sum" and len(_roots(source)) == len(source.pieces):
            yield source
    elif isinstance(source, Term):
        for operand in source.operands:
            yield from sums_of_squares(operand)


def _roots(total: Reduction) -> tuple[MapPiece, ...]:
    """The pieces of a sum that are squares, each with what it is the square of."""
    roots = ((piece.facts, _root(piece.source)) for piece in total.pieces)
    return tuple(MapPiece(facts, root) for facts, root in roots if root is not None)


def _root(source: Source) -> Source | None:
    """What a source is the square of; 0 of 0, None of any other."""
    if isinstance(source, Number):
        return source if source.text in ("0.0", "-0.0") else None
    if not isinstance(source, Term):
        return None
    name = source.operation.partition("[")[0]
    if name == "square" or source.operation.startswith("integer_pow[y=2]"):
        return source.operands[0]
    if name == "mul" and source.operands[0] == source.operands[1]:
        return source.operands[0]
    return None
