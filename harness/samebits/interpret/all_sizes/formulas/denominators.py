"""A formula without its denominators: it is 0 where the product with them is, as they are taken to be other than 0."""

from __future__ import annotations

from fractions import Fraction

from samebits.interpret.all_sizes.formulas.formula import Atom, Base, Formula, Size, polynomial
from samebits.interpret.all_sizes.formulas.ring import FormulaRing
from samebits.interpret.all_sizes.formulas.substitution import free_names


def without_denominators(ring: FormulaRing, formula: Formula) -> Formula | None:
    """A formula times all that it is divided by; None where that is nothing, or depends on bound indices.

    Args:
        ring: of the formula.
        formula: a sum.
    """
    lowest: dict[Atom, Fraction] = {}
    for summand in formula.summands:
        for value, exponent in summand.powers:
            free = not free_names(ring.space, value) & set(summand.bound)
            if isinstance(value, Base | Size) and exponent.denominator == 1 and exponent < 0 and free:
                lowest[value] = min(lowest.get(value, exponent), exponent)
    if not lowest:
        return None
    total = formula
    for value, exponent in lowest.items():
        inner = (
            value.formula
            if isinstance(value, Base)
            else polynomial(value.polynomial)
            if isinstance(value, Size)
            else None
        )
        assert inner is not None
        parts = []
        for s in total.summands:
            power = dict(s.powers).get(value, Fraction(0)) - exponent
            rest = [(other, e) for other, e in s.powers if other != value]
            body = ring.with_powers(s.factor, s.number, rest)
            if power:
                body = ring.multiply(body, ring.power(inner, power))
            parts.append(ring.summed(s.bound, s.facts, body))
        total = ring.add(*parts)
    return total
