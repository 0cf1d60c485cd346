"""Products of matrices, of ragged groups of rows, and convolutions: sums, or the element that a one-hot row picks."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from samebits.numerics.floats import is_float
from samebits.schema.domain import RequiredFact
from samebits.sizes.places.demand import Demand, Index, cast, is_number, names_in
from samebits.sizes.places.facts import (
    Fact,
    Facts,
    Integer,
    MapPiece,
    Number,
    Source,
    at_least,
    below,
    equal,
    only_where,
)
from samebits.sizes.places.polynomial import Polynomial, of, variable
from samebits.sizes.places.reductions import SlidingWindow, bound_indices, product_of, whole_result
from samebits.sizes.places.solving import Place, digits_of, only_one, substituted

MOST_GROUPS = 32
"""The most groups, each of which is a case of its own."""

Taken = Mapping[int, Polynomial]
"""By axis of an operand, the place on it."""


def dot_general(demand: Demand) -> list[MapPiece]:
    """Return the element that a one-hot operand picks of the other, else the sum of the products of two elements."""
    (contracted, _), _ = demand.params["dimension_numbers"]
    shape = demand.shape(0)
    summed = bound_indices(demand, [shape[axis] for axis in contracted])
    places = _places(demand, summed)
    for one_hot in (0, 1):
        pieces = demand.operand(one_hot, places[one_hot])
        if pieces and all(is_number(piece.source, 0) or is_number(piece.source, 1) for piece in pieces):
            other = 1 - one_hot
            picked = only_one(demand, pieces, digits_of(demand.space, summed), _picking(demand, other, places[other]))
            if picked is not None:
                return picked
    return product_of(demand, summed, places) if is_float(demand.output_dtype) else whole_result(demand)


def _places(demand: Demand, summed: Index) -> tuple[Index, Index]:
    """Return the places of both operands: batch axes first, then the free axes of the left and of the right."""
    contracted, batched = demand.params["dimension_numbers"]
    places: list[list[Polynomial | None]] = [[None] * len(demand.shape(side)) for side in (0, 1)]
    index = list(demand.index)
    for first, second in zip(*batched, strict=True):
        places[0][first] = places[1][second] = index.pop(0)
    for side in (0, 1):
        for axis, place in zip(contracted[side], summed, strict=True):
            places[side][axis] = place
        places[side] = [index.pop(0) if place is None else place for place in places[side]]
    first, second = (tuple(place for place in side if place is not None) for side in places)
    return first, second


def _picking(demand: Demand, other: int, place: Index) -> Place:
    """Return what stands at the place of the other operand that the digits of a row's only 1 say."""

    def picked(facts: Facts, digits: dict[str, Polynomial]) -> list[MapPiece]:
        pieces = demand.operand(other, substituted(place, digits), facts)
        return [MapPiece(piece.facts, _product(demand, piece.source, demand.dtype(other))) for piece in pieces]

    return picked


def _product(demand: Demand, source: Source, dtype: np.dtype[Any]) -> Source:
    """Return the element, which a sum with zeros preserves if all elements are finite."""
    if not isinstance(source, Integer | Number):
        for name in names_in(source):
            for fact in ("finite", "no_negative_zero", "no_subnormal", "no_signalling_nan"):
                demand.evaluator.promised[RequiredFact(fact, name)] = None
    return cast(source, dtype, demand)


def conv_general_dilated(demand: Demand) -> list[MapPiece]:
    """Convolve floats, with strides, paddings, dilations and groups of features or of the batch.

    Source: "Convolution" in the operation semantics of XLA.
    """
    if not is_float(demand.output_dtype):
        return whole_result(demand)
    left, right, out = demand.params["dimension_numbers"]
    kernel = demand.shape(1)
    summed = bound_indices(demand, [kernel[axis] for axis in right[1:]])
    feature, steps = summed[0], summed[1:]
    places: tuple[list[Polynomial], list[Polynomial]] = ([of(0)] * len(left), [of(0)] * len(right))
    places[0][left[0]], places[0][left[1]] = _batch_and_feature(demand, feature)
    places[1][right[0]], places[1][right[1]] = demand.index[out[1]], feature
    where: Facts = ()
    for number, step in enumerate(steps):
        size, window_number = demand.shape(0)[left[2 + number]], demand.index[out[2 + number]]
        place, facts = _window(demand, number).place(demand, size, window_number, step)
        places[0][left[2 + number]], places[1][right[2 + number]] = place, step
        where = (*where, *facts)
    return product_of(demand, summed, (tuple(places[0]), tuple(places[1])), where)


def _batch_and_feature(demand: Demand, feature: Polynomial) -> Index:
    """Return the place along batch and features of the left operand, in the group of the output's feature."""
    left, right, out = demand.params["dimension_numbers"]
    shape, kernel = demand.shape(0), demand.shape(1)
    batch, to_feature = demand.index[out[0]], demand.index[out[1]]
    features, batches = (demand.space.size(demand.params[f"{of_what}_group_count"]) for of_what in ("feature", "batch"))
    if features.constant != 1:
        feature = _group(demand, to_feature, kernel[right[0]], features) * kernel[right[1]] + feature
    if batches.constant != 1:
        each = shape[left[0]].quotient(batches)
        if each is None:
            raise demand.not_covered(f"{shape[left[0]]} rows in {batches} groups")
        batch = _group(demand, to_feature, kernel[right[0]], batches) * each + batch
    return batch, feature


def _group(demand: Demand, to_feature: Polynomial, features: Polynomial, groups: Polynomial) -> Polynomial:
    """Return the number of the group that a feature of the output is in."""
    each = features.quotient(groups)
    if each is None:
        raise demand.not_covered(f"{features} features in {groups} groups")
    return demand.space.divide(to_feature, each, demand.facts)[0]


def _window(demand: Demand, number: int) -> SlidingWindow:
    """Return the window along a spatial dimension."""
    params, size = demand.params, demand.space.size
    return SlidingWindow(
        size(params["window_strides"][number]),
        size(params["rhs_dilation"][number]),
        size(params["padding"][number][0]),
        size(params["lhs_dilation"][number]),
    )


def ragged_dot_general(demand: Demand) -> list[MapPiece]:
    """Multiply the rows of each group by its matrix, or, where rows are summed over, make a matrix for each group.

    Rows after the last group are unknown: what they hold is not documented. Source: `jax.lax.ragged_dot_general`, modes
    1 and 2; group `g` has `sizes[g]` rows, the groups lie end to end.

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
    """Yield a row of the result, by the group in which it lies."""
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
    """Yield the matrix of a group, a sum over its rows alone."""
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
    """Return where each group starts, and where the last one ends, by cases of their sizes."""
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
    """Return the number of rows of a group, by cases; the primitive asks for none below 0, as groups would overlap."""
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
    """Return the place in an operand, of which some axes are taken and the others free."""
    left = iter(free)
    return tuple(taken[axis] if axis in taken else next(left) for axis in range(len(demand.shape(operand))))


def _where(demand: Demand, facts: Facts) -> list[Demand]:
    """Return the demand where further facts hold; nothing where they never do."""
    own = demand.space.possible(facts, demand.facts)
    return [] if own is None else [demand.at(own)]


def _under(demand: Demand, there: Demand, pieces: list[MapPiece]) -> list[MapPiece]:
    """Return pieces of a demand with further facts as pieces of the demand without."""
    return only_where(there.facts[len(demand.facts) :], pieces)
