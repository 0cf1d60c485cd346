"""Products with one-hot matrices: the element that the only 1 of a row picks."""

from __future__ import annotations

from typing import Any

import numpy as np

from samebits.interpret.all_sizes.demand import Demand, Index
from samebits.interpret.all_sizes.facts import Facts, Integer, MapPiece, Number, Source
from samebits.interpret.all_sizes.picks import Place, only_one
from samebits.interpret.all_sizes.polynomial import Polynomial
from samebits.interpret.all_sizes.reductions import bound_indices, product_of
from samebits.interpret.all_sizes.results import whole_result
from samebits.interpret.all_sizes.solving import digits_of, substituted
from samebits.interpret.all_sizes.terms import cast, is_number, names_in
from samebits.numerics.floats import is_float
from samebits.schema.domain import RequiredFact


def dot_general(demand: Demand) -> list[MapPiece]:
    """A product of which one operand is a one-hot matrix: an element of the other.

    Any other product of floats is the sum of the products of two elements.
    """
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
    """The places of both operands: batch axes first, then the free axes of the left and of the right."""
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
    """What stands at the place of the other operand that the digits of a row's only 1 say."""

    def picked(facts: Facts, digits: dict[str, Polynomial]) -> list[MapPiece]:
        pieces = demand.operand(other, substituted(place, digits), facts)
        return [MapPiece(piece.facts, _product(demand, piece.source, demand.dtype(other))) for piece in pieces]

    return picked


def _product(demand: Demand, source: Source, dtype: np.dtype[Any]) -> Source:
    """The element, which a sum with zeros preserves if all elements are finite."""
    if not isinstance(source, Integer | Number):
        for name in names_in(source):
            for fact in ("finite", "no_negative_zero", "no_subnormal", "no_signalling_nan"):
                demand.evaluator.promised[RequiredFact(fact, name)] = None
    return cast(source, dtype, demand)
