"""A formula in the two cases of a sign: `max(a, b)` is `a` where `a - b` is not negative, and `b` elsewhere.

A formula is 0 where it is in both cases, whatever the numbers are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction

from samebits.sizes.formulas.formula import (
    Atom,
    Base,
    Exponential,
    Formula,
    Function,
    NoFormula,
    inner_formulas,
)
from samebits.sizes.formulas.logarithms import logarithm
from samebits.sizes.formulas.ring import FormulaRing
from samebits.sizes.formulas.substitution import free_names

Chosen = Callable[[Function], Formula | None]


def by_sign(ring: FormulaRing, formula: Formula) -> tuple[Formula, Formula] | None:
    """A formula where a difference in it is not negative, and where it is not positive; None where it has none.

    A difference that depends on a bound index has another sign at each place, and is not looked at.

    Args:
        ring: of the formula.
        formula: any.

    Raises:
        NoFormula: a case is not a formula.
    """
    first = next(_signed(ring, formula, frozenset()), None)
    if first is None:
        return None
    difference = _difference(ring, first)
    sides = [ring.canonical(difference), ring.canonical(ring.scaled(difference, -1))]

    def case(sign: int) -> Chosen:
        def chosen(function: Function) -> Formula | None:
            if function.operation not in _SIGNED:
                return None
            own = ring.canonical(_difference(ring, function))
            if own not in sides:
                return None
            return _where(ring, function, is_positive=(own == sides[0]) == (sign > 0))

        return chosen

    return _replaced(ring, formula, case(1)), _replaced(ring, formula, case(-1))


_SIGNED = ("abs", "max", "min")


def _difference(ring: FormulaRing, function: Function) -> Formula:
    first, *others = function.operands
    return ring.subtract(first, others[0]) if others else first


def _where(ring: FormulaRing, function: Function, *, is_positive: bool) -> Formula:
    """What a function is where its difference has a sign."""
    first, *others = function.operands
    if not others:
        return first if is_positive else ring.scaled(first, -1)
    return first if is_positive == (function.operation == "max") else others[0]


def _signed(ring: FormulaRing, formula: Formula, bound: frozenset[str]) -> Iterator[Function]:
    """The functions of a sign that depend on no bound index, the innermost first."""
    for summand in formula.summands:
        inside = bound | set(summand.bound)
        for value, _ in summand.powers:
            if not isinstance(value, Function | Exponential | Base):
                continue
            for inner in inner_formulas(value):
                yield from _signed(ring, inner, inside)
            if (
                isinstance(value, Function)
                and value.operation in _SIGNED
                and not free_names(ring.space, value) & inside
            ):
                yield value


def _replaced(ring: FormulaRing, formula: Formula, chosen: Chosen) -> Formula:
    """A formula with other formulas in place of functions in it."""
    parts = []
    for summand in formula.summands:
        kept: list[tuple[Atom, Fraction]] = []
        others: list[Formula] = []
        for value, exponent in summand.powers:
            other = _of_atom(ring, value, chosen)
            if other is None:
                kept.append((value, exponent))
            else:
                others.append(ring.power(other, exponent))
        body = ring.with_powers(summand.factor, summand.number, kept)
        for other in others:
            body = ring.multiply(body, other)
        parts.append(ring.summed(summand.bound, summand.facts, body))
    return ring.add(*parts)


def _of_atom(ring: FormulaRing, value: Atom, chosen: Chosen) -> Formula | None:
    """What takes the place of an atom; None where it stays."""
    own = chosen(value) if isinstance(value, Function) else None
    if own is not None:
        return own
    inner = inner_formulas(value)
    changed = tuple(_replaced(ring, formula, chosen) for formula in inner)
    if changed == inner:
        return None
    match value:
        case Base():
            return changed[0]
        case Exponential():
            return ring.exponential(changed[0])
        case Function(operation="log"):
            return logarithm(ring, changed[0])
        case Function(operation=operation):
            return ring.function(operation, *changed)
    raise NoFormula("the largest of what has another form for each sign")
