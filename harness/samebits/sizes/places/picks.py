"""Sums of which at most one term is not zero: the term that a one-hot row or the only device with a part picks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from samebits.sizes.places.demand import Demand
from samebits.sizes.places.facts import Facts, MapPiece, complement
from samebits.sizes.places.polynomial import Polynomial
from samebits.sizes.places.solving import solve
from samebits.sizes.places.terms import is_number

Place = Callable[[Facts, dict[str, Polynomial]], list[MapPiece]]
"""What the one term is, where facts hold, by the digits at which it stands."""


def only_one(demand: Demand, pieces: Sequence[MapPiece], digits: tuple[str, ...], term: Place) -> list[MapPiece] | None:
    """The terms that are picked, and zero where there is none.

    Args:
        demand: of the sum.
        pieces: of the terms, at bound indices.
        digits: of these indices.
        term: what is picked.

    Returns:
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
        left = space.simplified(solution[0])
        if left is not None and not space.contradicts((*demand.facts, *left)):
            solved.append((left, solution[1]))
    for number, (first, _) in enumerate(solved):
        for second, _ in solved[:number]:
            if not space.contradicts((*demand.facts, *first, *second)):
                return None
    result = [piece for facts, values in solved for piece in term(facts, values)]
    cases: list[Facts] = [()]
    for facts, _ in solved:
        cases = [(*before, *more) for before in cases for more in complement(facts)]
    for facts in cases:
        own = space.simplified(facts)
        if own is not None and not space.contradicts((*demand.facts, *own)):
            result.append(MapPiece(own, demand.zero()))
    return result
