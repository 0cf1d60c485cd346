"""Summands made simple: facts that always hold left out, indices that an equation determines or that nothing needs."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

from samebits.errors import NotCovered
from samebits.sizes.formulas.formula import (
    Extreme,
    Formula,
    NoFormula,
    Opaque,
    Substitution,
    Summand,
    free_names,
    fresh,
    inner_formulas,
    reached,
)
from samebits.sizes.places.facts import Element, Fact, Facts, at_least, below
from samebits.sizes.places.polynomial import Polynomial, of, variable
from samebits.sizes.places.space import CutIndex, Space


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
    own = space.possible(facts, known)
    return None if own is None else tuple(fact for fact in own if not follows(space, known, fact))


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
            value = fact.polynomial.zero_at(name)
            if value is not None and name not in reached(space, value.variables):
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


# How the bound indices of one product may be those of another: candidates, from the elements that both hold.
Binding = Mapping[str, Polynomial]
"""By bound index of one product, what it is in those of the other."""

MOST = 64
"""The most candidates that are tried for two products."""

MOST_PERMUTED = 4
"""The most indices that are permuted where no element says which is which."""


def bindings(space: Space, first: Summand, second: Summand) -> Iterator[Binding]:
    """Yield values of the second product's bound indices in those of the first: candidate bijections."""
    if len(first.bound) != len(second.bound):
        return
    if not second.bound:
        yield {}
        return
    pairs = _pairs(space, first, second)
    seen: list[Binding] = []
    for values in itertools.islice(_solutions(space, second.bound, pairs, {}), MOST):
        for binding in _completed(space, first.bound, second.bound, _from_equations(space, first, second, values)):
            if binding not in seen and _is_bijection(space, binding, first.bound, second.bound):
                seen.append(binding)
                yield binding


def _pairs(space: Space, first: Summand, second: Summand) -> list[tuple[Element, Element]]:
    """Return elements of both products of one input that hold bound indices."""
    mine = [e for e in elements(space, first) if _holds(space, e, first.bound)]
    others = [e for e in elements(space, second) if _holds(space, e, second.bound)]
    return [(a, b) for b in others for a in mine if a.name == b.name and len(a.index) == len(b.index)]


def _holds(space: Space, element: Element, bound: tuple[str, ...]) -> bool:
    return any(p.variables & set(bound) for p in element.index)


def elements(space: Space, summand: Summand) -> list[Element]:
    """Return the elements of inputs in a product, those inside of its atoms and of unknown integers too."""
    seen: dict[Element, None] = {}
    names = set(summand.number.variables) | {n for fact in summand.facts for n in fact.polynomial.variables}
    for value, _ in summand.powers:
        if isinstance(value, Element):
            seen[value] = None
            names |= {name for p in value.index for name in p.variables}
        if isinstance(value, Opaque) and isinstance(value.source, Element):
            seen[value.source] = None
        for formula in inner_formulas(value):
            seen |= dict.fromkeys([element for summand in formula.summands for element in elements(space, summand)])
        if isinstance(value, Extreme):
            names |= {n for facts, _ in value.cases for fact in facts for n in fact.polynomial.variables}
    for name in sorted(reached(space, names)):
        source = space.sources.get(name)
        if isinstance(source, Element):
            seen[source] = None
    return list(seen)


def _solutions(
    space: Space, unknown: tuple[str, ...], pairs: list[tuple[Element, Element]], values: dict[str, Polynomial]
) -> Iterator[dict[str, Polynomial]]:
    """Return values of unknown indices for which the elements of some pairs are the same."""
    extended = False
    if len(values) < len(unknown):
        for number, (a, b) in enumerate(pairs):
            more = _equated(space, unknown, a, b, values)
            if len(more) > len(values):
                extended = True
                yield from _solutions(space, unknown, pairs[:number] + pairs[number + 1 :], more)
    if not extended:
        yield values


def _equated(
    space: Space, unknown: tuple[str, ...], a: Element, b: Element, values: dict[str, Polynomial]
) -> dict[str, Polynomial]:
    """Return the values for which two elements are the same, as far as single indices show."""
    values = dict(values)
    for mine, other in zip(a.index, b.index, strict=True):
        difference = other.substitute(values) - mine
        names = [name for name in unknown if name in difference.variables]
        if len(names) > 1:
            values |= _digits(space, names, difference)
            continue
        value = _single(space, names[0], difference) if names else None
        values |= {names[0]: value} if value is not None else {}
    return values


def _single(space: Space, name: str, p: Polynomial) -> Polynomial | None:
    """Return what an index is where a polynomial is zero; None where that is not a polynomial."""
    parts, alone = p.by(name), p.zero_at(name)
    if alone is not None or parts is None or not parts[0].variables or not parts[0].variables <= space.lowest.keys():
        return alone
    # The divisor of remainders in the rest has no sign.
    sign = -1 if space.proves((), -parts[0] - 1) else 1
    value, left = space.divisions.without_multiples(-parts[1], parts[0] * sign)
    return None if left.terms else value * sign


def _from_equations(
    space: Space, first: Summand, second: Summand, values: dict[str, Polynomial]
) -> dict[str, Polynomial]:
    """Return values with one more, for which an equation of the one product is one of the other or its negative."""
    for mine, other in itertools.product(_equations(first), _equations(second)):
        for difference in (other.substitute(values) - mine, other.substitute(values) + mine):
            names = [name for name in second.bound if name not in values and name in difference.variables]
            value = _single(space, names[0], difference) if len(names) == 1 else None
            if value is not None:
                return {**values, names[0]: value}
    return values


def _equations(summand: Summand) -> list[Polynomial]:
    return [fact.polynomial for fact in summand.facts if fact.kind == "zero"]


def _digits(space: Space, names: list[str], difference: Polynomial) -> dict[str, Polynomial]:
    """Return the values of indices as the digits of a number, where each has the weight of those before it."""
    weights: dict[str, Polynomial] = {}
    for name in names:
        parts = difference.by(name)
        if parts is None or not parts[0].variables <= space.lowest.keys():
            return {}
        weights[name] = parts[0]
    left = -difference.substitute({name: Polynomial() for name in names})
    values: dict[str, Polynomial] = {}
    try:
        for name in sorted(
            names, key=lambda name: -len(weights[name].variables) * 1000 - abs(weights[name].constant or 0)
        ):
            # A digit that counts from the end has a negative weight.
            falls = space.proves((), -weights[name] - 1)
            value, left = space.divide(left, -weights[name] if falls else weights[name])
            values[name] = -value if falls else value
    except (CutIndex, NotCovered):
        return {}
    return values if not left.terms else {}


def lifted(space: Space, first: Summand, second: Summand) -> Iterator[dict[str, Polynomial]]:
    """Yield values of as many bound indices of the first product as the second one has fewer.

    With these, elements of both are the same: the second product is then the first one at a single place.
    """
    missing = len(first.bound) - len(second.bound)
    mine = [e for e in elements(space, first) if _holds(space, e, first.bound)]
    pairs = [(b, a) for a in mine for b in elements(space, second) if a.name == b.name and len(a.index) == len(b.index)]
    seen: list[dict[str, Polynomial]] = []
    for values in itertools.islice(_solutions(space, first.bound, pairs, {}), MOST):
        for names in itertools.combinations(sorted(values), missing):
            chosen = {name: values[name] for name in names}
            if chosen not in seen and not reached(space, (v for p in chosen.values() for v in p.variables)) & {
                *first.bound,
                *second.bound,
            }:
                seen.append(chosen)
                yield chosen


def _completed(
    space: Space, mine: tuple[str, ...], others: tuple[str, ...], values: dict[str, Polynomial]
) -> Iterator[Binding]:
    """Return bindings with the indices that no element determines as the ones of the same size."""
    missing = [name for name in others if name not in values]
    used = {name for p in values.values() for name in p.variables}
    left = [name for name in mine if name not in used]
    if len(missing) > MOST_PERMUTED or len(missing) != len(left):
        return
    for order in itertools.permutations(left):
        if all(space.ranges.get(b) in (None, space.ranges.get(a)) for a, b in zip(missing, order, strict=True)):
            yield {**values, **{a: variable(b) for a, b in zip(missing, order, strict=True)}}


def _is_bijection(space: Space, binding: Binding, mine: tuple[str, ...], others: tuple[str, ...]) -> bool:
    """Tell whether the values are linear in the indices with whole coefficients and determinant 1 or -1."""
    rows = []
    for p in binding.values():
        if reached(space, p.variables - set(mine)) & {*mine, *others}:
            return False  # as an element of an index that is an input
        row = []
        for name in mine:
            parts = p.by(name)
            if parts is None or parts[0].constant is None:
                return False
            row.append(Fraction(parts[0].constant))
        rows.append(row)
    return abs(_determinant(rows)) == 1


def _determinant(rows: list[list[Fraction]]) -> Fraction:
    rows, total = [list(row) for row in rows], Fraction(1)
    for column in range(len(rows)):
        pivot = next((n for n in range(column, len(rows)) if rows[n][column]), None)
        if pivot is None:
            return Fraction(0)
        if pivot != column:
            rows[column], rows[pivot], total = rows[pivot], rows[column], -total
        total *= rows[column][column]
        for number in range(column + 1, len(rows)):
            factor = rows[number][column] / rows[column][column]
            rows[number] = [a - factor * b for a, b in zip(rows[number], rows[column], strict=True)]
    return total
