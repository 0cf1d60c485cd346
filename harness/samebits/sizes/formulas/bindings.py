"""How the bound indices of one product may be those of another: candidates, from the elements that both hold."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from fractions import Fraction

from samebits.errors import NotCovered
from samebits.sizes.formulas.formula import Extreme, Formula, Opaque, Summand, inner_formulas
from samebits.sizes.formulas.substitution import reached
from samebits.sizes.places.divisions import CutIndex
from samebits.sizes.places.facts import Element
from samebits.sizes.places.polynomial import Polynomial, variable
from samebits.sizes.places.space import Space

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
            seen |= dict.fromkeys(_of_formula(space, formula))
        if isinstance(value, Extreme):
            names |= {n for facts, _ in value.cases for fact in facts for n in fact.polynomial.variables}
    for name in sorted(reached(space, names)):
        source = space.sources.get(name)
        if isinstance(source, Element):
            seen[source] = None
    return list(seen)


def _of_formula(space: Space, formula: Formula) -> list[Element]:
    return [element for summand in formula.summands for element in elements(space, summand)]


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
    parts = p.by(name)
    if parts is None or parts[0].constant in (1, -1):
        return None if parts is None else parts[1] * -int(parts[0].constant or 0)
    if not parts[0].variables or not parts[0].variables <= space.lowest.keys():
        return None
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
