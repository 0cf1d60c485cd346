"""A sum over an index of a few places as one summand for each: it then meets a sum that a program writes out."""

from __future__ import annotations

from samebits.interpret.all_sizes.formulas.formula import Formula, Summand
from samebits.interpret.all_sizes.formulas.ring import FormulaRing
from samebits.interpret.all_sizes.formulas.substitution import Substitution
from samebits.interpret.all_sizes.polynomial import of

MOST_PLACES = 8
"""The most places of an index that are written out."""

MOST_SUMMANDS = 64
"""The most summands that a formula may have by it."""


def unrolled(ring: FormulaRing, formula: Formula) -> Formula | None:
    """A formula without sums over indices of a few places; None where it has none, or has too many.

    Args:
        ring: of the formula.
        formula: any.
    """
    written: list[Summand] = []
    changed = False
    for summand in formula.summands:
        name = next((name for name in summand.bound if _places(ring, name)), None)
        if name is None:
            written.append(summand)
            continue
        changed = True
        rest = tuple(other for other in summand.bound if other != name)
        for place in range(_places(ring, name)):
            body = Substitution(ring.space, {name: of(place)}).body(summand)
            facts = ring.space.simplified(body.facts)
            if facts is not None:
                product = ring.with_powers(body.factor, body.number, body.powers)
                written += ring.summed(rest, facts, product).summands
    if not changed or len(written) > MOST_SUMMANDS:
        return None
    return ring.add(Formula(tuple(written)))


def _places(ring: FormulaRing, name: str) -> int:
    """How many places an index has, where they are few; else 0."""
    size = ring.space.ranges[name].constant if name in ring.space.ranges else None
    return size if size is not None and size <= MOST_PLACES else 0
