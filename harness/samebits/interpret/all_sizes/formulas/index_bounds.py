"""Bound indices between two bounds: how many there are, or the same sum with an index that begins at 0.

`sum(1 for k in range(n) if k <= i)` is `i + 1`. An array that was joined of two others is read at one place for
`k < a*b`, which is cut into digits of `a` and `b`, and at another one from there on.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from samebits.errors import NotCovered
from samebits.interpret.all_sizes.divisions import CutIndex
from samebits.interpret.all_sizes.facts import Facts, at_least
from samebits.interpret.all_sizes.formulas.bindings import elements
from samebits.interpret.all_sizes.formulas.formula import Formula, NoFormula, Summand
from samebits.interpret.all_sizes.formulas.substitution import Substitution, free_names, fresh, reached
from samebits.interpret.all_sizes.polynomial import Polynomial, of, variable
from samebits.interpret.all_sizes.space import Space


class _Bounds(NamedTuple):
    """The least and the largest value of an index, and the facts that say nothing of it."""

    low: Polynomial
    high: Polynomial
    rest: Facts


def counted(space: Space, summand: Summand, known: Facts) -> Summand | None:
    """A summand times the number of places of an index that only stands in its bounds; None where there is none.

    Args:
        space: sizes and indices.
        summand: a product.
        known: what holds besides.
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
    """A summand with an index that begins at 0 or has digits, where that leaves no quotient of it; None elsewhere.

    Args:
        space: sizes and indices.
        summand: a product.
        known: what holds besides.
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
    """The bounds of an index; None where a fact says more of it, or it is not known which of two bounds decides."""
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
    """The bound that is at least all others, or at most where `sign` is -1."""
    every = list(dict.fromkeys(bounds))
    return next((p for p in every if all(space.proves(known, (p - other) * sign) for other in every)), None)


def _divided(space: Space, summand: Summand) -> list[str]:
    """The bound indices of which an element of an input has a quotient or a remainder."""
    names = {name for element in elements(space, summand) for p in element.index for name in p.variables}
    parts = {n for name in names & space.divisions.divided.keys() for n in space.divisions.divided[name][0].variables}
    return [name for name in summand.bound if name in parts]
