"""Summands made simple: facts that always hold left out, indices that an equation determines or that nothing needs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from samebits.interpret.all_sizes.facts import Fact, Facts, at_least, below
from samebits.interpret.all_sizes.formulas.formula import Formula, Summand
from samebits.interpret.all_sizes.formulas.index_bounds import counted, from_zero
from samebits.interpret.all_sizes.formulas.substitution import Substitution, free_names, reached
from samebits.interpret.all_sizes.polynomial import Polynomial, of, variable
from samebits.interpret.all_sizes.space import Space


def simplified(space: Space, formula: Formula, known: Facts) -> Formula:
    """A formula whose summands are simple, where facts hold."""
    kept = (simple_summand(space, summand, known) for summand in formula.summands)
    return Formula(merged(space, (summand for summand in kept if summand is not None)))


def simple_summand(space: Space, summand: Summand, known: Facts) -> Summand | None:
    """A summand in its simple form; None where it has no place."""
    while True:
        facts = left_facts(space, summand.facts, known)
        if facts is None:
            return None
        summand = Summand(summand.factor, summand.number, summand.powers, summand.bound, facts)
        fewer = without_determined(space, summand) or counted(space, summand, known) or from_zero(space, summand, known)
        if fewer is None:
            return _without_unused(space, summand)
        summand = fewer


def without_determined(space: Space, summand: Summand) -> Summand | None:
    """A summand without one bound index that an equation determines; None where none does."""
    determined = _determined(space, summand)
    if determined is None:
        return None
    name, value = determined
    body = Substitution(space, {name: value}).body(summand)
    inside = (at_least(value, 0), below(value, space.ranges[name]))
    return Summand(body.factor, body.number, body.powers, body.bound, (*body.facts, *inside))


def left_facts(space: Space, facts: Facts, known: Facts) -> Facts | None:
    """The facts that do not follow from what is known; None where they contradict it."""
    own = space.simplified(facts)
    if own is None or (own and space.contradicts((*known, *own))):
        return None
    return tuple(fact for fact in own if not follows(space, known, fact))


def follows(space: Space, known: Facts, fact: Fact) -> bool:
    """Whether a fact is shown to hold where others do."""
    if fact in known:
        return True
    if fact.kind == "zero":
        return space.proves(known, fact.polynomial) and space.proves(known, -fact.polynomial)
    return space.proves(known, fact.polynomial)


def _determined(space: Space, summand: Summand) -> tuple[str, Polynomial] | None:
    """A bound index and the value that an equation gives it."""
    for fact in summand.facts:
        if fact.kind != "zero":
            continue
        for name in sorted(fact.polynomial.variables & set(summand.bound) & space.ranges.keys()):
            parts = fact.polynomial.by(name)
            if parts is None or parts[0].constant not in (1, -1):
                continue
            value = parts[1] * -int(parts[0].constant or 0)
            if name not in reached(space, value.variables):
                return name, value
    return None


def _without_unused(space: Space, summand: Summand) -> Summand:
    """A summand without the indices that nothing depends on: it stands there as often as there are of them."""
    inner = Summand(summand.factor, summand.number, summand.powers, (), summand.facts)
    used = free_names(space, Formula((inner,)))
    number, bound = summand.number, []
    for name in summand.bound:
        if name in used:
            bound.append(name)
        else:
            number = number * space.ranges[name]
    return Summand(summand.factor, number, summand.powers, tuple(bound), summand.facts)


def merged(space: Space, summands: Iterable[Summand]) -> tuple[Summand, ...]:
    """Summands with the same sum, of which no two can be merged."""
    kept: list[Summand] = []
    todo = list(summands)
    while todo:
        summand = todo.pop(0)
        for number, other in enumerate(kept):
            whole = _both(space, other, summand)
            if whole is not None:
                del kept[number]
                todo.insert(0, whole)
                break
        else:
            kept.append(summand)
    return tuple(kept)


def _both(space: Space, first: Summand, second: Summand) -> Summand | None:
    """The summand that stands where one of the two does; None where there is none, or both may stand at one place."""
    if replace(first, facts=()) != replace(second, facts=()):
        return None
    mine = [fact for fact in first.facts if fact not in second.facts]
    others = [fact for fact in second.facts if fact not in first.facts]
    if len(mine) != 1 or len(others) != 1:
        return None
    for fact, other in ((mine[0], others[0]), (others[0], mine[0])):
        union = _union(space, fact, other)
        if union is not None:
            return replace(first, facts=(*(kept for kept in first.facts if kept not in mine), *union))
    return None


def _union(space: Space, first: Fact, second: Fact) -> Facts | None:
    """What holds where one of two facts does that exclude each other; None where that is not a fact."""
    p, q = first.polynomial, second.polynomial
    match first.kind, second.kind:
        case "not_negative", "not_negative" if q == -p - 1:
            return ()
        case "zero", "not_negative":
            return next((((Fact("not_negative", side),)) for side in (p, -p) if q == side - 1), None)
        case "zero", "zero":
            names = p.variables
            boolean = len(names) == 1 and space.ranges.get(next(iter(names))) == of(2)
            x = variable(next(iter(names), ""))
            return () if boolean and p in (x, -x) and q in (x - 1, 1 - x) else None
    return None
