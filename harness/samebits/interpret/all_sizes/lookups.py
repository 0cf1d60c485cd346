"""Gathers: elements by computed indices."""

from __future__ import annotations

from typing import Any

import numpy as np

from samebits.interpret.all_sizes.demand import Demand, Index, constant
from samebits.interpret.all_sizes.facts import Facts, MapPiece, at_least, complement
from samebits.interpret.all_sizes.movement import Rule, clamped
from samebits.interpret.all_sizes.polynomial import Polynomial, of
from samebits.interpret.all_sizes.scatters import note_promises, scatter, scatter_add


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
    from jax.lax import GatherScatterMode  # here, so that reading facts alone does not import jax

    note_promises(demand, start)
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


LOOKUPS: dict[str, Rule] = {
    "gather": _gather,
    "scatter": scatter,
    "scatter-add": scatter_add,
    "scatter_add": scatter_add,
}
