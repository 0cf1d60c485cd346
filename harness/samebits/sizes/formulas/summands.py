"""Summands made simple: facts that always hold left out, indices that an equation determines or that nothing needs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from samebits.errors import NotCovered
from samebits.sizes.formulas.bindings import elements
from samebits.sizes.formulas.formula import Formula, NoFormula, Summand
from samebits.sizes.formulas.substitution import Substitution, free_names, fresh, reached
from samebits.sizes.places.divisions import CutIndex
from samebits.sizes.places.facts import Fact, Facts, at_least, below
from samebits.sizes.places.polynomial import Polynomial, of, variable
from samebits.sizes.places.space import Space


def simplified(space: Space, formula: Formula, known: Facts) -> Formula:
    """Return a formula whose summands are simple, where facts hold."""
    kept = (simple_summand(space, summand, known) for summand in formula.summands)
    return Formula(merged(space, (summand for summand in kept if summand is not None)))


def simple_summand(space: Space, summand: Summand, known: Facts) -> Summand | None:
    """Return a summand in its simple form; None where it has no place."""
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
    """Return a summand without one bound index that an equation determines; None where none does."""
    determined = _determined(space, summand)
    if determined is None:
        return None
    name, value = determined
    body = Substitution(space, {name: value}).body(summand)
    inside = (at_least(value, 0), below(value, space.ranges[name]))
    return Summand(body.factor, body.number, body.powers, body.bound, (*body.facts, *inside))


def left_facts(space: Space, facts: Facts, known: Facts) -> Facts | None:
    """Return the facts that do not follow from what is known; None where they contradict it."""
    own = space.simplified(facts)
    if own is None or (own and space.contradicts((*known, *own))):
        return None
    return tuple(fact for fact in own if not follows(space, known, fact))


def follows(space: Space, known: Facts, fact: Fact) -> bool:
    """Tell whether a fact is shown to hold where others do."""
    if fact in known:
        return True
    if fact.kind == "zero":
        return space.proves(known, fact.polynomial) and space.proves(known, -fact.polynomial)
    return space.proves(known, fact.polynomial)


def _determined(space: Space, summand: Summand) -> tuple[str, Polynomial] | None:
    """Return a bound index and the value that an equation gives it."""
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
    """Drop the indices that nothing depends on: the summand stands there as often as there are of them."""
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
    """Return summands with the same sum, of which no two can be merged."""
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
    """Return the summand that stands where one of two does; None without any, or where both may stand at one place."""
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
    """Return what holds where one of two facts does that exclude each other; None where that is not a fact."""
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


class _Bounds(NamedTuple):
    """The least and the largest value of an index, and the facts that say nothing of it."""

    low: Polynomial
    high: Polynomial
    rest: Facts


def counted(space: Space, summand: Summand, known: Facts) -> Summand | None:
    """Return a summand times the number of places of an index that only stands in its bounds; None without any.

    `sum(1 for k in range(n) if k <= i)` is `i + 1`.
    """
    inner = Formula((Summand(summand.factor, summand.number, summand.powers),))
    used = free_names(space, inner)
    for name in summand.bound:
        bounds = None if name in used else _bounds(space, summand, name, known)
        if bounds is None or name in free_names(space, bounds.rest):
            continue
        number = summand.number * (bounds.high - bounds.low + 1)
        kept = tuple(other for other in summand.bound if other != name)
        there = at_least(bounds.high, bounds.low)
        return Summand(summand.factor, number, summand.powers, kept, (*bounds.rest, there))
    return None


def from_zero(space: Space, summand: Summand, known: Facts) -> Summand | None:
    """Return a summand with an index that begins at 0 or has digits, where that leaves no quotient of it; else None.

    An array that was joined of two others is read at one place for `k < a*b`, which is cut into digits of `a` and `b`,
    and at another one from there on.
    """
    for name in _divided(space, summand):
        bounds = _bounds(space, summand, name, known)
        if bounds is None or not (bounds.high - bounds.low).variables <= space.lowest.keys():
            continue
        if not space.proves((), bounds.high - bounds.low):
            continue
        other = _renamed(space, replace(summand, facts=bounds.rest), name, bounds)
        if other is not None and len(_divided(space, other)) < len(_divided(space, summand)):
            return other
    return None


def _renamed(space: Space, summand: Summand, name: str, bounds: _Bounds) -> Summand | None:
    size = bounds.high - bounds.low + 1
    names = [fresh(space, size)]
    value = variable(names[0])
    while True:
        try:
            body = Substitution(space, {name: bounds.low + value}).body(summand)
            return replace(body, bound=(*body.bound, *names))
        except (NoFormula, NotCovered):  # as of a digit of an unknown integer
            return None
        except CutIndex as request:
            high = space.ranges[request.name].quotient(request.weight)
            if request.name not in names or high is None:
                return None
            digits = fresh(space, high), fresh(space, request.weight)
            value = value.substitute({request.name: request.weight * variable(digits[0]) + variable(digits[1])})
            names = [other for other in names if other != request.name] + list(digits)


def _bounds(space: Space, summand: Summand, name: str, known: Facts) -> _Bounds | None:
    """Return the bounds of an index; None where a fact says more of it, or it is open which of two bounds decides."""
    size = space.ranges.get(name)
    low, high = ([], []) if size is None else ([of(0)], [size - 1])
    rest = []
    for fact in summand.facts:
        parts = fact.polynomial.by(name)
        factor = None if parts is None or fact.kind != "not_negative" else parts[0].constant
        if parts is None or factor not in (1, -1) or name in reached(space, parts[1].variables):
            rest.append(fact)
        elif factor == 1:
            low.append(-parts[1])
        else:
            high.append(parts[1])
    around = (*known, *rest)
    least = _deciding(space, around, low, 1)
    most = _deciding(space, around, high, -1)
    return None if least is None or most is None else _Bounds(least, most, tuple(rest))


def _deciding(space: Space, known: Facts, bounds: Iterable[Polynomial], sign: int) -> Polynomial | None:
    """Return the bound that is at least all others, or at most where `sign` is -1."""
    every = list(dict.fromkeys(bounds))
    return next((p for p in every if all(space.proves(known, (p - other) * sign) for other in every)), None)


def _divided(space: Space, summand: Summand) -> list[str]:
    """Return the bound indices of which an element of an input has a quotient or a remainder."""
    names = {name for element in elements(space, summand) for p in element.index for name in p.variables}
    parts = {n for name in names & space.divisions.divided.keys() for n in space.divisions.divided[name][0].variables}
    return [name for name in summand.bound if name in parts]
