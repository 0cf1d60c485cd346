"""Which unknown indices satisfy equations: the inverse of an index map, with the facts under which there is one."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence

from samebits.sizes.places.demand import Demand, is_number
from samebits.sizes.places.facts import Fact, Facts, MapPiece, at_least, below, complement, equal
from samebits.sizes.places.polynomial import Polynomial, variable
from samebits.sizes.places.space import Space

Solution = tuple[Facts, dict[str, Polynomial]]
"""Where there is a solution, and by digit of the unknown indices, its value."""


def digits_of(space: Space, indices: Iterable[Polynomial]) -> tuple[str, ...]:
    """Return the digits that indices are made of."""
    return tuple(sorted({name for index in indices for name in index.variables} - space.lowest.keys()))


def solve(space: Space, unknown: Sequence[str], facts: Facts, known: Facts) -> Solution | None:
    """Return the one value of every unknown digit for which facts hold, and what is left of these.

    The facts that are left are of known indices alone. None where a digit is left open.
    """
    values: dict[str, Polynomial] = {}
    left: list[Fact] = []
    # Equations of digits in place of one of what they make up, where that is shown to be the same.
    facts = space.simplified(facts) or facts
    hiding = _hiding(space, unknown, facts)
    if hiding:
        return _through_permutation(space, unknown, facts, known, hiding)
    equations = [fact.polynomial for fact in facts if fact.kind == "zero"]
    while equations:
        equation = equations.pop(0).substitute(values)
        names = [name for name in unknown if name in equation.variables]
        if not names:
            left.append(equal(equation, 0))
            continue
        step = _solved_for_one(space, equation, names, known)
        if step is None:
            return None
        name, value, further = step
        values = {other: p.substitute({name: value}) for other, p in values.items()} | {name: value}
        equations += further
    facts = tuple(Fact(fact.kind, fact.polynomial.substitute(values)) for fact in facts)
    for name in unknown:
        if name not in values:
            multiple = _only_multiple(space, name, facts, known)
            if multiple is None:
                return None
            values = {other: p.substitute({name: multiple}) for other, p in values.items()} | {name: multiple}
            facts = tuple(Fact(fact.kind, fact.polynomial.substitute(values)) for fact in facts)
    left += [Fact(fact.kind, fact.polynomial.substitute(values)) for fact in facts if fact.kind == "not_negative"]
    for name, value in values.items():
        left += [at_least(value, 0), below(value, space.ranges[name].substitute(values))]
    return tuple(left), values


def _only_multiple(space: Space, name: str, facts: Facts, known: Facts) -> Polynomial | None:
    """Return the one value of an index with `0 <= p - w * index < w` among facts."""
    bounds = [fact.polynomial for fact in facts if fact.kind == "not_negative" and name in fact.polynomial.variables]
    for low in bounds:
        parts = low.by(name)
        if parts is None or not space.proves((), -parts[0] - 1):
            continue
        width, rest = -parts[0], parts[1]
        if any(low + high == width - 1 for high in bounds) and width.variables <= space.lowest.keys():
            return space.divide(rest, width, known)[0]
    return None


def _hiding(space: Space, unknown: Sequence[str], facts: Facts) -> list[str]:
    """Return the unknown integers that depend on unknown indices, as an index that is an input does."""
    names = dict.fromkeys(name for fact in facts for name in sorted(fact.polynomial.variables))
    return [name for name in names if not space.inside.get(name, frozenset()).isdisjoint(unknown)]


def _through_permutation(
    space: Space, unknown: Sequence[str], facts: Facts, known: Facts, hiding: Sequence[str]
) -> Solution | None:
    """Solve where unknown indices are the place of a permutation: its number first, then the place of that."""
    hidden = space.permutations.hidden_in(space, hiding, frozenset(unknown))
    if hidden is None:
        return None
    name, permutation = hidden
    own = [digit for digit in unknown if digit in permutation.place.variables]
    number = space.current(variable(name))
    others = [digit for digit in unknown if digit not in own]
    direct = tuple(fact for fact in facts if fact.polynomial.variables.isdisjoint(own))
    first = solve(space, [*others, *sorted(number.variables)], direct, known)
    if first is None:
        return None
    left, values = first
    back = space.permutations.value(space, permutation.undone(number.substitute(values)))
    rest = (Fact(fact.kind, fact.polynomial.substitute(values)) for fact in facts if fact not in direct)
    second = solve(space, own, (equal(permutation.place, back), *rest), (*known, *left))
    if second is None:
        return None
    return (*left, *second[0]), {digit: value for digit, value in values.items() if digit in others} | second[1]


def _solved_for_one(
    space: Space, equation: Polynomial, names: Sequence[str], known: Facts
) -> tuple[str, Polynomial, list[Polynomial]] | None:
    """Return one digit's value from `equation == 0`, and the equations that are left."""
    for name in names:
        alone = equation.zero_at(name) if len(names) == 1 else None
        if alone is not None:
            return name, alone, []
        parts = equation.by(name)
        if parts is None:
            continue
        factor, rest = parts
        if not space.proves((), factor - 1):
            factor, rest = -factor, -rest
        if not space.proves((), factor - 1) or factor.variables & set(names):
            continue
        # factor * name + lower = total, where lower holds the other unknown digits.
        lower = rest - rest.substitute({other: Polynomial() for other in names})
        total = lower - rest
        for shift in (Polynomial(), factor - 1):
            low = lower + shift
            if space.proves((), low) and space.proves((), factor - 1 - low):
                value, remainder = space.divide(total + shift, factor, known)
                return name, value, [low - remainder]
    return None


def substituted(indices: Iterable[Polynomial], values: dict[str, Polynomial]) -> tuple[Polynomial, ...]:
    """Return indices with the values of their digits."""
    return tuple(index.substitute(values) for index in indices)


# Sums of which at most one term is not zero: the term that a one-hot row or the only device with a part picks.
Place = Callable[[Facts, dict[str, Polynomial]], list[MapPiece]]
"""What the one term is, where facts hold, by the digits at which it stands."""


def only_one(demand: Demand, pieces: Sequence[MapPiece], digits: tuple[str, ...], term: Place) -> list[MapPiece] | None:
    """Return the terms that are picked, and zero where there is none.

    None where it is not shown that at most one term is not zero.
    """
    space = demand.space
    solved: list[tuple[Facts, dict[str, Polynomial]]] = []
    for piece in pieces:
        if is_number(piece.source, 0):
            continue
        solution = solve(space, digits, piece.facts, demand.facts)
        if solution is None:
            return None
        left = space.possible(solution[0], demand.facts)
        if left is not None:
            solved.append((left, solution[1]))
    cases = [facts for facts, _ in solved]
    if not are_apart(space, cases, demand.facts):
        return None
    rest = (space.possible(facts, demand.facts) for facts in elsewhere(space, cases, demand.facts))
    zeros = [MapPiece(own, demand.zero()) for own in rest if own is not None]
    return [piece for facts, values in solved for piece in term(facts, values)] + zeros


def are_apart(space: Space, cases: Sequence[Facts], known: Facts) -> bool:
    """Tell whether it is shown that no two of several conjunctions hold at one place."""
    return all(space.contradicts((*known, *a, *b)) for a, b in itertools.combinations(cases, 2))


def elsewhere(space: Space, cases: Iterable[Facts], known: Facts) -> list[Facts]:
    """Return where none of several conjunctions holds, as conjunctions."""
    left: list[Facts] = [()]
    for facts in cases:
        both = [(*before, *other) for before in left for other in complement(facts)]
        left = [facts for facts in both if not space.contradicts((*known, *facts))]
    return left
