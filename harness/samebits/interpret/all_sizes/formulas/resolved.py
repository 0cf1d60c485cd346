"""Formulas rebuilt where more facts hold, from the innermost sums outwards."""

from __future__ import annotations

from fractions import Fraction

from samebits.interpret.all_sizes.facts import Fact, Facts
from samebits.interpret.all_sizes.formulas.formula import (
    ONE,
    Atom,
    Base,
    Exponential,
    Extreme,
    Formula,
    Function,
    Summand,
    inner_formulas,
)
from samebits.interpret.all_sizes.formulas.logarithms import logarithm
from samebits.interpret.all_sizes.formulas.ring import FormulaRing
from samebits.interpret.all_sizes.formulas.substitution import reached
from samebits.interpret.all_sizes.formulas.summands import left_facts, simplified
from samebits.interpret.all_sizes.space import Space


def resolved(ring: FormulaRing, formula: Formula, known: Facts) -> Formula:
    """A formula without the facts that always hold and the summands that never stand, where facts hold."""
    parts = []
    for summand in formula.summands:
        s = ring.renamed(summand) if summand.bound else summand
        own = left_facts(ring.space, s.facts, known)
        if own is None:
            continue
        inner = (*known, *own)
        product = ring.with_powers(s.factor, s.number, ())
        for value, exponent in s.powers:
            product = ring.multiply(product, _power(ring, value, exponent, inner))
        parts.append(ring.summed(s.bound, own, product))
    return simplified(ring.space, ring.add(*parts), known)


def _power(ring: FormulaRing, value: Atom, exponent: Fraction, known: Facts) -> Formula:
    if not any(map(_has_facts, inner_formulas(value))) and not isinstance(value, Extreme):
        return ring.with_powers(Fraction(1), ONE, [(value, exponent)])
    match value:
        case Exponential(exponent=inner):
            return ring.exponential(ring.scaled(resolved(ring, inner, known), exponent))
        case Base(formula=inner):
            return ring.power(resolved(ring, inner, known), exponent)
        case Function(operation="log", operands=(inner,)):
            return ring.power(logarithm(ring, resolved(ring, inner, known)), exponent)
        case Function(operation=operation, operands=operands):
            whole = ring.function(operation, *(resolved(ring, inner, known) for inner in operands))
            return ring.power(whole, exponent)
        case Extreme(kind=kind, bound=bound, cases=cases):
            left = [
                (own, resolved(ring, inner, (*known, *own)))
                for facts, inner in cases
                if (own := left_facts(ring.space, facts, known)) is not None
            ]
            return ring.power(ring.extreme(kind, bound, left), exponent)
    return ring.with_powers(Fraction(1), ONE, [(value, exponent)])


def _has_facts(formula: Formula) -> bool:
    return any(
        summand.facts or any(_has_facts(inner) for value, _ in summand.powers for inner in inner_formulas(value))
        for summand in formula.summands
    )


def open_fact(space: Space, formula: Formula, bound: frozenset[str] = frozenset()) -> Fact | None:
    """A fact in a formula that depends on no bound index: what the formula is depends on whether it holds."""
    for summand in formula.summands:
        fact = _open_in_summand(space, summand, bound)
        if fact is not None:
            return fact
    return None


def _open_in_summand(space: Space, summand: Summand, bound: frozenset[str]) -> Fact | None:
    around = bound | set(summand.bound)
    for fact in summand.facts:
        if not reached(space, fact.polynomial.variables) & around:
            return fact
    for value, _ in summand.powers:
        if isinstance(value, Extreme):
            for facts, _ in value.cases:
                for fact in facts:
                    if not reached(space, fact.polynomial.variables) & (around | set(value.bound)):
                        return fact
        within = around | set(value.bound) if isinstance(value, Extreme) else around
        for inner in inner_formulas(value):
            deeper = open_fact(space, inner, within)
            if deeper is not None:
                return deeper
    return None
