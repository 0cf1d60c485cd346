"""Gather, scatter and scatter-add: elements by computed indices, and where they came from."""

from __future__ import annotations

from typing import Any

import numpy as np

from samebits.errors import NotCovered
from samebits.interpret.all_sizes.demand import Demand, Index, constant
from samebits.interpret.all_sizes.facts import Facts, MapPiece, at_least, complement, equal
from samebits.interpret.all_sizes.movement import Rule, clamped, within
from samebits.interpret.all_sizes.polynomial import Polynomial, of
from samebits.interpret.all_sizes.results import whole_result
from samebits.interpret.all_sizes.solving import digits_of, solve, substituted
from samebits.interpret.all_sizes.terms import added_zero


def _gather(demand: Demand) -> list[MapPiece]:
    numbers = demand.params["dimension_numbers"]
    batch = tuple(at for axis, at in enumerate(demand.index) if axis not in numbers.offset_dims)
    offsets = iter([demand.index[axis] for axis in numbers.offset_dims])
    fixed = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
    shape, sizes = demand.shape(0), [demand.space.size(size) for size in demand.params["slice_sizes"]]
    base = [of(0) if axis in fixed else next(offsets) for axis in range(len(shape))]
    for axis, other in zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True):
        base[axis] = batch[other]
    cases: list[tuple[Facts, Index, Facts]] = [((), tuple(base), ())]
    for position, axis in enumerate(numbers.start_index_map):
        room = shape[axis] - sizes[axis]
        cases = [
            (own, _moved(places, axis, start), (*inside, *more))
            for facts, places, inside in cases
            for known, value in demand.integers(1, (*batch, of(position)), facts)
            for own, start, more in _started(demand, known, value, room)
        ]
    pieces = []
    for facts, places, inside in cases:
        pieces += demand.operand(0, places, (*facts, *inside))
        for outside in complement(inside):
            own = demand.space.simplified((*facts, *outside))
            if own is not None and not demand.space.contradicts((*demand.facts, *own)):
                pieces.append(MapPiece(own, _fill(demand)))
    return pieces


def _moved(places: Index, axis: int, start: Polynomial) -> Index:
    return (*places[:axis], places[axis] + start, *places[axis + 1 :])


def _started(
    demand: Demand, facts: Facts, start: Polynomial, room: Polynomial
) -> list[tuple[Facts, Polynomial, Facts]]:
    """The start of a window by cases, each with what must hold for it to lie inside."""
    from jax.lax import GatherScatterMode  # here, so that whoever reads facts alone does without jax

    mode = GatherScatterMode.from_any(demand.params["mode"])
    if mode == GatherScatterMode.CLIP:
        return [(own, place, ()) for own, place in clamped(demand, start, facts, room)]
    inside: Facts = (at_least(start, 0), at_least(room, start))
    known = (*demand.facts, *facts)
    inside = tuple(fact for fact in inside if not demand.space.proves(known, fact.polynomial))
    if inside and mode == GatherScatterMode.PROMISE_IN_BOUNDS:
        if start.variables.isdisjoint(demand.space.inside):
            raise demand.not_covered(f"the index {start} is promised to be in bounds, which is not shown")
        # The program promises it of the values of its inputs: so does the proof.
        demand.evaluator.assumed |= dict.fromkeys(inside)
        return [(facts, start, ())]
    return [(facts, start, inside)]


def _fill(demand: Demand) -> Any:
    """What a gather gives out of range: `fill_value`, else NaN, or for integers the smallest (unsigned: largest)."""
    dtype, value = demand.output_dtype, demand.params.get("fill_value")
    if value is None:
        if dtype.kind in "iub":
            value = True if dtype.kind == "b" else np.iinfo(dtype).min if dtype.kind == "i" else np.iinfo(dtype).max
        else:
            value = np.nan
    return constant(np.asarray(value).astype(dtype))


def _scatter(demand: Demand) -> list[MapPiece]:
    solved = _updates(demand)
    pieces = [piece for facts, place in solved for piece in demand.operand(2, place, facts)]
    return pieces + _elsewhere(demand, [facts for facts, _ in solved])


def _scatter_add(demand: Demand) -> list[MapPiece]:
    try:
        solved = _updates(demand)
    except NotCovered:
        return whole_result(demand)
    pieces = [
        MapPiece(piece.facts, added_zero(demand, base.source, piece.source))
        for facts, place in solved
        for base in demand.operand(0, demand.index, facts)
        for piece in demand.operand(2, place, base.facts)
    ]
    return pieces + _elsewhere(demand, [facts for facts, _ in solved])


def _elsewhere(demand: Demand, written: list[Facts]) -> list[MapPiece]:
    """The operand where no update is written."""
    cases: list[Facts] = [()]
    for facts in written:
        cases = [
            (*before, *other)
            for before in cases
            for other in complement(facts)
            if not demand.space.contradicts((*demand.facts, *before, *other))
        ]
    return [piece for facts in cases for piece in demand.operand(0, demand.index, facts)]


def _updates(demand: Demand) -> list[tuple[Facts, Index]]:
    """The places of the updates that are written to the place that is asked for, by cases that exclude each other.

    Raises:
        NotCovered: two updates may be written to one place.
    """
    numbers, space = demand.params["dimension_numbers"], demand.space
    shape, updates = demand.shape(0), demand.shape(2)
    windows = list(numbers.update_window_dims)
    scattered = [axis for axis in range(len(updates)) if axis not in windows]
    name = f"update {demand.label}"
    fixed = dict(zip(numbers.scatter_indices_batching_dims, numbers.operand_batching_dims, strict=True))
    batch = tuple(
        demand.index[fixed[number]] if number in fixed else space.index(f"{name}.{axis}", updates[axis])
        for number, axis in enumerate(scattered)
    )
    unknown = digits_of(space, (p for number, p in enumerate(batch) if number not in fixed))
    kept = [a for a in range(len(shape)) if a not in (*numbers.inserted_window_dims, *numbers.operand_batching_dims)]
    window = {axis: demand.index[axis] for axis in kept}
    cases: list[tuple[Facts, dict[int, Polynomial]]] = [((), window)]
    for position, axis in enumerate(numbers.scatter_dims_to_operand_dims):
        length = updates[windows[kept.index(axis)]] if axis in kept else of(1)
        room = shape[axis] - length
        cases = [
            _target(demand, (*known, *facts), offsets, axis, value, length)
            for facts, offsets in cases
            for before, start in demand.integers(1, (*batch, of(position)))
            for known, value in _written(demand, before, start, room)
        ]
    solved = []
    for facts, offsets in cases:
        solution = solve(space, unknown, facts, demand.facts)
        if solution is None:
            raise demand.not_covered("which update is written to a place is not solved, or there are several")
        left = space.simplified(solution[0])
        if left is None or space.contradicts((*demand.facts, *left)):
            continue
        places = dict(zip(scattered, substituted(batch, solution[1]), strict=True))
        places |= {windows[number]: offsets[axis] for number, axis in enumerate(kept)}
        solved.append((left, tuple(places[axis] for axis in range(len(updates)))))
    _check_disjoint(demand, [facts for facts, _ in solved])
    return solved


def _written(demand: Demand, facts: Facts, start: Polynomial, room: Polynomial) -> list[tuple[Facts, Polynomial]]:
    """The start of a window that is written, by cases: one out of range is moved in mode `clip`, and dropped else."""
    from jax.lax import GatherScatterMode  # here, so that whoever reads facts alone does without jax

    if GatherScatterMode.from_any(demand.params["mode"]) == GatherScatterMode.CLIP:
        return clamped(demand, start, facts, room)
    return [(facts, start)]


def _target(
    demand: Demand, facts: Facts, offsets: dict[int, Polynomial], axis: int, value: Polynomial, length: Polynomial
) -> tuple[Facts, dict[int, Polynomial]]:
    """The facts for a place to be written by a window of this length from this start."""
    room = demand.shape(0)[axis] - length
    if axis not in offsets:
        _require_not_clipped(demand, facts, value, room)
        return (*facts, equal(value, demand.index[axis])), offsets
    # A window that sticks out is dropped or moved as a whole.
    if not (demand.space.proves((*demand.facts, *facts), value) and demand.space.proves(facts, room - value)):
        raise demand.not_covered(f"a window from {value} on is not shown to lie inside")
    place = demand.index[axis] - value
    return (*facts, *within(place, length)), {**offsets, axis: place}


def _require_not_clipped(demand: Demand, facts: Facts, start: Polynomial, room: Polynomial) -> None:
    """An update out of range is left out, but for one mode, in which it is written at the edge.

    Raises:
        NotCovered: it is that mode, and the update may be out of range.
    """
    from jax.lax import GatherScatterMode  # here, so that whoever reads facts alone does without jax

    if GatherScatterMode.from_any(demand.params["mode"]) != GatherScatterMode.CLIP:
        return
    if not all(demand.space.proves((*demand.facts, *facts), p) for p in (start, room - start)):
        raise demand.not_covered(f"the index {start} is clipped, and is not shown to be in bounds")


def _check_disjoint(demand: Demand, cases: list[Facts]) -> None:
    for number, first in enumerate(cases):
        for second in cases[:number]:
            if not demand.space.contradicts((*demand.facts, *first, *second)):
                raise demand.not_covered("two updates are not shown to be written to different places")


LOOKUPS: dict[str, Rule] = {
    "gather": _gather,
    "scatter": _scatter,
    "scatter-add": _scatter_add,
    "scatter_add": _scatter_add,
}
