"""Concrete sizes at which two programs may differ: candidates of z3, to be confirmed by evaluating both there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from samebits.sizes.places.equality import Doubt
from samebits.sizes.places.facts import Element, Integer, Reduction, Source, Term
from samebits.sizes.places.linear_questions import in_order
from samebits.sizes.places.polynomial import Polynomial
from samebits.sizes.places.space import Space

STEPS = 20_000_000
"""z3's resource limit for one candidate."""

LIMITS = (2, 3, 5, 9, 33)
"""The largest value of a symbol in each attempt: a small counterexample is read more easily."""

FEW = 4
"""The most numbers in a program near which sizes are tried."""

ALONE = 1 << 20
"""The largest value of a symbol in attempts where it alone is large."""


def candidates(space: Space, doubt: Doubt) -> Iterator[dict[str, int]]:
    """Yield sizes at which the place of a doubt may differ, small ones first."""
    import z3  # here, because only doubts need it

    context = z3.Context()  # its own, so that the sizes depend on nothing that was asked before

    def expression(p: Polynomial) -> z3.ArithRef:
        total = z3.IntVal(0, context)
        for monomial, factor in p.terms:
            product = z3.IntVal(factor, context)
            for name in monomial:
                product = product * z3.Int(name, context)
            total = total + product
        return total

    differences = [expression(p) for p in _differences(doubt.first, doubt.second)]
    known = {name for fact in doubt.facts for name in fact.polynomial.variables}
    facts = space.all_facts((*doubt.facts, *space.ranges_of(known | {n for p in doubt.index for n in p.variables})))
    bounded: list[dict[str, int]] = [dict.fromkeys(space.lowest, limit) for limit in LIMITS]
    bounded += [{**space.lowest, large: ALONE} for large in space.lowest]
    for largest in bounded:
        solver = z3.Solver(ctx=context)
        solver.set("rlimit", STEPS)
        for name, lowest in space.lowest.items():
            solver.add(z3.Int(name, context) >= lowest, z3.Int(name, context) <= max(largest[name], lowest))
        for fact in sorted(facts, key=in_order):
            value = expression(fact.polynomial)
            solver.add(value >= 0 if fact.kind == "not_negative" else value == 0)
        if differences:
            solver.add(z3.Or([difference != 0 for difference in differences]))
        if solver.check() == z3.sat:
            model = solver.model()
            yield {name: model.eval(z3.Int(name, context), model_completion=True).as_long() for name in space.lowest}


def small_sizes(lowest: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """Yield sizes to try where z3 finds none: all alike, then no two alike."""
    for more in (1, 2, 4):
        yield {name: low + more for name, low in lowest.items()}
    yield {name: low + 1 + number for number, (name, low) in enumerate(lowest.items())}
    yield {name: low + len(lowest) - number for number, (name, low) in enumerate(lowest.items())}


def sizes_near_constants(space: Space, doubt: Doubt) -> Iterator[dict[str, int]]:
    """Yield sizes just above the numbers that sums in a doubt are cut at, which a smaller array does not reach."""
    numbers = {number for source in (doubt.first, doubt.second) for number in _constants(source)}
    for number in sorted(numbers)[:FEW]:
        for large in space.lowest:
            yield {name: number + 1 if name == large else low + 1 for name, low in space.lowest.items()}


def _constants(source: Source) -> set[int]:
    """Return the numbers in facts about bound indices."""
    match source:
        case Term(operands=operands):
            return {number for operand in operands for number in _constants(operand)}
        case Reduction(pieces=pieces):
            facts = [fact.polynomial for piece in pieces for fact in piece.facts]
            own = {abs(dict(p.terms).get((), 0)) for p in facts}
            inner = {number for piece in pieces for number in _constants(piece.source)}
            return {number for number in own | inner if number > 4}
    return set()


def _differences(first: Source, second: Source) -> list[Polynomial]:
    """Return the polynomials one of which is not zero where two sources of a kind differ; none if they always do."""
    if isinstance(first, Element) and isinstance(second, Element) and first.name == second.name:
        return [a - b for a, b in zip(first.index, second.index, strict=True)]
    if isinstance(first, Integer) and isinstance(second, Integer):
        return [first.value - second.value]
    if isinstance(first, Term) and isinstance(second, Term) and first.operation == second.operation:
        pairs = zip(first.operands, second.operands, strict=True)
        return [difference for a, b in pairs if a != b for difference in _differences(a, b)]
    return []
