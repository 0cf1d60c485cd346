"""Ragged products: the rows of each group are multiplied by the matrix of that group."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

from samebits.interpret.all_sizes.demand import Demand, Index
from samebits.interpret.all_sizes.facts import Fact, Facts, MapPiece, at_least, below, equal
from samebits.interpret.all_sizes.polynomial import Polynomial, of, variable
from samebits.interpret.all_sizes.reductions import bound_indices, product_of
from samebits.interpret.all_sizes.results import whole_result
from samebits.numerics.floats import is_float

MOST_GROUPS = 32
"""The most groups, each of which is a case of its own."""

Taken = Mapping[int, Polynomial]
"""By axis of an operand, the place on it."""


def ragged_dot_general(demand: Demand) -> list[MapPiece]:
    """The rows of each group times its matrix, or, where rows are summed over, one matrix for each group.

    Rows after the last group are unknown: what they hold is not documented.

    Source: `jax.lax.ragged_dot_general`, modes 1 and 2; group `g` has `sizes[g]` rows, the groups lie end to end.

    Raises:
        NotCovered: batch dimensions, a group offset, integers, or groups whose number is a symbol or large.
    """
    numbers = demand.params["ragged_dot_dimension_numbers"]
    contracted, batch = numbers.dot_dimension_numbers
    if batch[0] or demand.count > 3 or demand.params.get("group_offset") is not None:
        raise demand.not_covered("a ragged product with batch dimensions or a group offset")
    if not is_float(demand.output_dtype):
        raise demand.not_covered(f"a ragged product of {demand.output_dtype.name}")
    (rows,) = numbers.lhs_ragged_dimensions
    if rows in contracted[0]:
        return list(_matrices(demand, rows, contracted))
    (chosen,) = numbers.rhs_group_dimensions
    return list(_rows(demand, rows, chosen, contracted))


def _rows(
    demand: Demand, rows: int, chosen: int, contracted: tuple[tuple[int, ...], tuple[int, ...]]
) -> Iterator[MapPiece]:
    """A row of the result, by the group in which it lies."""
    free = [axis for axis in range(len(demand.shape(0))) if axis not in contracted[0]]
    row = demand.index[free.index(rows)]
    for facts, starts in _starts(demand, rows):
        for group, (start, end) in enumerate(itertools.pairwise(starts)):
            for there in _where(demand, (*facts, at_least(row, start), below(row, end))):
                summed = bound_indices(there, [demand.shape(0)[axis] for axis in contracted[0]])
                left = _place(demand, 0, dict(zip(contracted[0], summed, strict=True)), demand.index)
                taken = {chosen: of(group), **dict(zip(contracted[1], summed, strict=True))}
                right = _place(demand, 1, taken, demand.index[len(free) :])
                yield from _under(demand, there, product_of(there, summed, (left, right)))
        for there in _where(demand, (*facts, at_least(row, starts[-1]))):
            yield from _under(demand, there, whole_result(there))


def _matrices(demand: Demand, rows: int, contracted: tuple[tuple[int, ...], tuple[int, ...]]) -> Iterator[MapPiece]:
    """The matrix of a group, a sum over its rows alone."""
    group, *places = demand.index
    free = len(demand.shape(0)) - len(contracted[0])
    for facts, starts in _starts(demand, rows):
        for number, (start, end) in enumerate(itertools.pairwise(starts)):
            for there in _where(demand, (*facts, equal(group, number))):
                summed = bound_indices(there, [demand.shape(0)[axis] for axis in contracted[0]])
                row = summed[contracted[0].index(rows)]
                left = _place(demand, 0, dict(zip(contracted[0], summed, strict=True)), tuple(places))
                right = _place(demand, 1, dict(zip(contracted[1], summed, strict=True)), tuple(places[free:]))
                own = (at_least(row, start), below(row, end))
                yield from _under(demand, there, product_of(there, summed, (left, right), own))


def _starts(demand: Demand, rows: int) -> list[tuple[Facts, list[Polynomial]]]:
    """Where each group starts, and where the last one ends, by cases of their sizes."""
    groups, room = demand.shape(2)[-1].constant, demand.shape(0)[rows]
    if groups is None or groups > MOST_GROUPS:
        raise demand.not_covered(f"a ragged product of {demand.shape(2)[-1]} groups, each of which is a case")
    cases: list[tuple[Facts, list[Polynomial]]] = [((), [of(0)])]
    for group in range(groups):
        cases = [
            (known, [*starts, starts[-1] + size])
            for facts, starts in cases
            for known, size in _group_sizes(demand, group, room, facts)
        ]
    for facts, starts in cases:
        _assume(demand, facts, at_least(room, starts[-1]))
    return cases


def _group_sizes(demand: Demand, group: int, room: Polynomial, facts: Facts) -> list[tuple[Facts, Polynomial]]:
    """The number of rows of a group, by cases; the primitive asks for one that is not negative, else groups overlap."""
    cases = demand.integers(2, (of(group),), facts)
    for known, size in cases:
        unknown = next((name for name in size.variables if size == variable(name)), None)
        if unknown in demand.space.sources:
            demand.space.promise_below(demand.space.sources[unknown], room + 1)
        for fact in (at_least(size, 0), at_least(room, size)):
            _assume(demand, known, fact)
    return cases


def _assume(demand: Demand, facts: Facts, fact: Fact) -> None:
    """Note what has to hold of the inputs, where that is not shown."""
    if not demand.space.proves((*demand.facts, *facts), fact.polynomial):
        demand.evaluator.assumed[fact] = None


def _place(demand: Demand, operand: int, taken: Taken, free: Index) -> Index:
    """The place in an operand, of which some axes are taken and the others free."""
    left = iter(free)
    return tuple(taken[axis] if axis in taken else next(left) for axis in range(len(demand.shape(operand))))


def _where(demand: Demand, facts: Facts) -> list[Demand]:
    """The demand where further facts hold; nothing where they never do."""
    own = demand.space.simplified(facts)
    return [] if own is None or demand.space.contradicts((*demand.facts, *own)) else [demand.at(own)]


def _under(demand: Demand, there: Demand, pieces: list[MapPiece]) -> list[MapPiece]:
    """Pieces of a demand with further facts as pieces of the demand without."""
    own = there.facts[len(demand.facts) :]
    return [MapPiece((*own, *piece.facts), piece.source) for piece in pieces]
