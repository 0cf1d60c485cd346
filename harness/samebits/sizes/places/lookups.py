"""Gathers and scatters: elements read and written by computed indices."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from samebits.errors import NotCovered
from samebits.numerics.floats import is_float
from samebits.sizes.places.demand import Demand, Index, added_zero, constant
from samebits.sizes.places.facts import (
    Facts,
    Integer,
    MapPiece,
    Reduction,
    Source,
    Whole,
    at_least,
    complement,
    equal,
    variables_in,
)
from samebits.sizes.places.movement import Rule, clamped, within
from samebits.sizes.places.polynomial import Polynomial, of
from samebits.sizes.places.reductions import bound_indices, names_of, whole_result
from samebits.sizes.places.solving import are_apart, digits_of, elsewhere, solve, substituted
from samebits.sizes.places.space import Permutation, Space

# Stable sorts: every output is its operand at the places of one permutation, which the keys decide on.
_PLACE = "sorted place"


def sort(demand: Demand) -> list[MapPiece]:
    """Return a place of an output: the operand at the place that the order has there."""
    params = demand.params
    axis, deciding = params["dimension"], range(params["num_keys"])
    known = _inverted(demand) if params["num_keys"] == 1 else None
    if known is not None:
        return [
            piece
            for facts, place in known
            for piece in demand.operand(demand.number, (*demand.index[:axis], place, *demand.index[axis + 1 :]), facts)
        ]
    keys = [_key(demand, number) for number in deciding] if params["is_stable"] else [None]
    if any(key is None for key in keys):
        return whole_result(demand)
    wholes = tuple(key for key in keys if key is not None)
    dtypes = ", ".join(demand.dtype(number).name for number in deciding)
    wanted = Permutation(
        operation=f"order of {params['num_keys']} keys along {axis}: {dtypes}",
        operands=wholes,
        index=demand.index,
        axis=axis,
        size=demand.output_shape[axis],
    )
    place = _inverse(demand, wanted)
    if place is None:
        place = demand.space.permutations.value(demand.space, wanted)
    return demand.operand(demand.number, (*demand.index[:axis], place, *demand.index[axis + 1 :]))


def _inverted(demand: Demand) -> list[tuple[Facts, Polynomial]] | None:
    """Return where each number stands, by cases, if the keys are the numbers of a computed permutation; else None.

    As there are as many keys as numbers below the size of the axis, it is enough that each of these is some key.
    """
    space, axis = demand.space, demand.params["dimension"]
    if demand.dtype(0).kind not in "iu":
        return None
    size, place = demand.output_shape[axis], demand.index[axis]
    own = space.index(f"key {demand.label} below {size}", size)
    pieces = demand.operand(0, (*demand.index[:axis], own, *demand.index[axis + 1 :]))
    cases: list[tuple[Facts, Polynomial]] = []
    for piece in pieces:
        if not isinstance(piece.source, Integer):
            return None
        wanted = (*piece.facts, equal(piece.source.value, place))
        solution = solve(space, digits_of(space, [own]), wanted, demand.facts)
        left = None if solution is None else space.simplified(solution[0])
        if solution is not None and left is not None:
            cases.append((left, own.substitute(solution[1])))
    if not cases or not space.covered_by([facts for facts, _ in cases], demand.facts):
        return None
    return cases


def _key(demand: Demand, number: int) -> Whole | None:
    """Return an operand at bound indices named alike for all sorts; None where it is not of these alone.

    What is sorted in two programs, or inside what another sort takes, then has one name.
    """
    space, shape = demand.space, demand.shape(number)
    if any(name.startswith(_PLACE) for p in demand.devices.values() for name in p.variables):
        return None
    index: Index = tuple(space.index(f"{_PLACE} {axis} below {n}", n) for axis, n in enumerate(shape))
    own = frozenset(name for p in index for name in p.variables) | space.lowest.keys()
    pieces = demand.alone().operand(number, index)
    names = {name for piece in pieces for fact in piece.facts for name in fact.polynomial.variables}
    names |= {name for piece in pieces for name in variables_in(piece.source)}
    if not names <= own and not all(space.inside.get(name, frozenset([name])) <= own for name in names - own):
        return None
    return Whole(shape, index, tuple(pieces))


def _inverse(demand: Demand, wanted: Permutation) -> Polynomial | None:
    """Return the order of the numbers of a permutation: its inverse."""
    whole = wanted.operands[0]
    if len(whole.pieces) != 1 or whole.pieces[0].facts or not isinstance(whole.pieces[0].source, Integer):
        return None
    number = whole.pieces[0].source.value
    known = demand.space.permutations.at_value(demand.space, number)
    if known is None or known.index != whole.index or known.axis != wanted.axis or known.size != wanted.size:
        return None
    return demand.space.permutations.value(demand.space, _moved_along(known, wanted))


def _moved_along(known: Permutation, wanted: Permutation) -> Permutation:
    return Permutation(known.operation, known.operands, wanted.index, wanted.axis, wanted.size, not known.inverse)


def scatter(demand: Demand) -> list[MapPiece]:
    """Return the update that is written to a place, and the operand where none is."""
    solved = _Updates(demand).written()
    pieces = [piece for facts, place in solved for piece in demand.operand(2, place, facts)]
    return pieces + _elsewhere(demand, [facts for facts, _ in solved])


def scatter_add(demand: Demand) -> list[MapPiece]:
    """Return the update that is added to a place, where that is one; else the sum of those that are."""
    updates = _Updates(demand)
    try:
        solved = updates.written()
    except NotCovered:
        return updates.added()
    pieces = [
        MapPiece(piece.facts, added_zero(demand, base.source, piece.source))
        for facts, place in solved
        for base in demand.operand(0, demand.index, facts)
        for piece in demand.operand(2, place, base.facts)
    ]
    return pieces + _elsewhere(demand, [facts for facts, _ in solved])


def _elsewhere(demand: Demand, written: list[Facts]) -> list[MapPiece]:
    """Return the operand where no update is written."""
    cases = elsewhere(demand.space, written, demand.facts)
    return [piece for facts in cases for piece in demand.operand(0, demand.index, facts)]


Offsets = dict[int, Polynomial]
"""By axis of the operand, the place inside of a window."""


@dataclass(frozen=True)
class _Updates:
    """The updates of a scatter, and which of them are written to the place that is asked for."""

    demand: Demand

    @cached_property
    def _windows(self) -> list[int]:
        return list(self.demand.params["dimension_numbers"].update_window_dims)

    @cached_property
    def _scattered(self) -> list[int]:
        return [axis for axis in range(len(self.demand.shape(2))) if axis not in self._windows]

    @cached_property
    def _fixed(self) -> dict[int, int]:
        """Map the number of a scattered axis to the axis of the operand that it goes along with."""
        numbers = self.demand.params["dimension_numbers"]
        return dict(zip(numbers.scatter_indices_batching_dims, numbers.operand_batching_dims, strict=True))

    @cached_property
    def _kept(self) -> list[int]:
        numbers = self.demand.params["dimension_numbers"]
        left_out = (*numbers.inserted_window_dims, *numbers.operand_batching_dims)
        return [axis for axis in range(len(self.demand.shape(0))) if axis not in left_out]

    def _batch(self, own: Index) -> Index:
        """Return the places along the scattered axes, with these where no axis of the operand goes along with one."""
        places = iter(own)
        return tuple(
            self.demand.index[self._fixed[number]] if number in self._fixed else next(places)
            for number in range(len(self._scattered))
        )

    def _own_sizes(self) -> list[Polynomial]:
        shape = self.demand.shape(2)
        return [shape[axis] for number, axis in enumerate(self._scattered) if number not in self._fixed]

    def _cases(self, batch: Index) -> list[tuple[Facts, Offsets]]:
        """Return where the update at a place of the batch is written to the place that is asked for."""
        demand, numbers = self.demand, self.demand.params["dimension_numbers"]
        shape, updates = demand.shape(0), demand.shape(2)
        cases: list[tuple[Facts, Offsets]] = [((), {axis: demand.index[axis] for axis in self._kept})]
        for position, axis in enumerate(numbers.scatter_dims_to_operand_dims):
            length = updates[self._windows[self._kept.index(axis)]] if axis in self._kept else of(1)
            room = shape[axis] - length
            cases = [
                _target(demand, (*known, *facts), offsets, axis, value, length)
                for facts, offsets in cases
                for before, start in demand.integers(1, (*batch, of(position)))
                for known, value in _written(demand, before, start, room)
            ]
        return cases

    def _place(self, batch: Index, offsets: Offsets) -> Index:
        places = dict(zip(self._scattered, batch, strict=True))
        places |= {self._windows[number]: offsets[axis] for number, axis in enumerate(self._kept)}
        return tuple(places[axis] for axis in range(len(places)))

    def written(self) -> list[tuple[Facts, Index]]:
        """Return the places of the updates that are written, by cases that exclude each other.

        Raises:
            NotCovered: two updates may be written to one place.
        """
        demand, space = self.demand, self.demand.space
        name = f"update {demand.label}"
        own = tuple(space.index(f"{name}.{number}", size) for number, size in enumerate(self._own_sizes()))
        batch, unknown = self._batch(own), digits_of(space, own)
        solved = []
        for facts, offsets in self._cases(batch):
            solution = solve(space, unknown, facts, demand.facts)
            if solution is None:
                clipped = "; those out of range are clipped" if _is_clipped(demand) else ""
                raise demand.not_covered(
                    f"which update is written to a place is not solved, or there are several{clipped}"
                )
            left = space.possible(solution[0], demand.facts)
            if left is not None:
                solved.append((left, substituted(self._place(batch, offsets), solution[1])))
        if not are_apart(space, [facts for facts, _ in solved], demand.facts):
            raise demand.not_covered("two updates are not shown to be written to different places")
        return solved

    def added(self) -> list[MapPiece]:
        """Return the operand, and the sum of all updates that are written to the place."""
        demand = self.demand
        if not is_float(demand.output_dtype) and demand.output_dtype.kind not in "iu":
            return whole_result(demand)
        bound = bound_indices(demand, self._own_sizes())
        own = self._by_number(bound)
        batch = self._batch(own)
        pieces = [
            piece
            for facts, offsets in self._cases(batch)
            for piece in demand.operand(2, self._place(batch, offsets), facts)
        ]
        merged = tuple(_merged(demand.space, pieces))
        total = Reduction("sum", demand.output_dtype.name, names_of(demand, bound), merged)
        return [
            MapPiece(base.facts, added_zero(demand, base.source, total)) for base in demand.operand(0, demand.index)
        ]

    def _by_number(self, bound: Index) -> Index:
        """Return the same places in the order of a permutation's numbers, where that decides what is written."""
        space = self.demand.space
        unknown = frozenset(digits_of(space, bound))
        values = [fact.polynomial for facts, _ in self._cases(self._batch(bound)) for fact in facts]
        hiding = dict.fromkeys(
            name
            for p in values
            for name in sorted(p.variables)
            if not space.inside.get(name, frozenset()).isdisjoint(unknown)
        )
        hidden = space.permutations.hidden_in(space, list(hiding), unknown) if hiding else None
        if hidden is None or hidden[1].place not in bound:
            return bound
        place = hidden[1].place
        if place.constant is not None or hidden[1].size != self._own_sizes()[bound.index(place)]:
            return bound
        back = space.permutations.value(space, hidden[1].undone(place))
        return tuple(back if p == place else p for p in bound)


def _merged(space: Space, pieces: Iterable[MapPiece]) -> list[MapPiece]:
    """Merge pieces with the same element, where the cases that distinguish them are shown to be all."""
    by_source: dict[Source, list[Facts]] = {}
    for piece in pieces:
        by_source.setdefault(piece.source, []).append(piece.facts)
    merged = []
    for source, cases in by_source.items():
        common = tuple(fact for fact in cases[0] if all(fact in case for case in cases))
        rests = [tuple(fact for fact in case if fact not in common) for case in cases]
        if len(cases) > 1 and space.covered_by(rests, common):
            cases = [common]
        merged += [MapPiece(case, source) for case in cases]
    return merged


def _written(demand: Demand, facts: Facts, start: Polynomial, room: Polynomial) -> list[tuple[Facts, Polynomial]]:
    """Return the start of a window that is written, by cases: out of range, moved in mode `clip`, and dropped else."""
    note_promises(demand, start)
    return clamped(demand, start, facts, room) if _is_clipped(demand) else [(facts, start)]


def note_promises(demand: Demand, start: Polynomial) -> None:
    """Note as a condition what an operation promises of indices that are not known: compilers may rely on it.

    The flag `unique_indices` of a gather does not reach XLA.
    """
    if start.variables.isdisjoint(demand.space.inside):
        return
    if demand.params.get("indices_are_sorted"):
        demand.space.bounded[f"the indices of {demand} are sorted, as it promises"] = None
    if demand.params.get("unique_indices") and demand.equation.primitive.name.startswith("scatter"):
        demand.space.bounded[f"the indices of {demand} are distinct, as it promises"] = None


def _is_clipped(demand: Demand) -> bool:
    from jax.lax import GatherScatterMode  # here, so that reading facts alone does not import jax

    return bool(GatherScatterMode.from_any(demand.params["mode"]) == GatherScatterMode.CLIP)


def _target(
    demand: Demand, facts: Facts, offsets: dict[int, Polynomial], axis: int, value: Polynomial, length: Polynomial
) -> tuple[Facts, dict[int, Polynomial]]:
    """Say when a place is written by a window of this length from this start."""
    room = demand.shape(0)[axis] - length
    if axis not in offsets:
        return (*facts, equal(value, demand.index[axis])), offsets
    # A window that sticks out is dropped or moved as a whole.
    if not (demand.space.proves((*demand.facts, *facts), value) and demand.space.proves(facts, room - value)):
        raise demand.not_covered(f"a window from {value} on is not shown to lie inside")
    place = demand.index[axis] - value
    return (*facts, *within(place, length)), {**offsets, axis: place}


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
            own = demand.space.possible((*facts, *outside), demand.facts)
            if own is not None:
                pieces.append(MapPiece(own, _fill(demand)))
    return pieces


def _moved(places: Index, axis: int, start: Polynomial) -> Index:
    return (*places[:axis], places[axis] + start, *places[axis + 1 :])


def _started(
    demand: Demand, facts: Facts, start: Polynomial, room: Polynomial
) -> list[tuple[Facts, Polynomial, Facts]]:
    """Return the start of a window by cases, each with what must hold for it to lie inside."""
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
    """Return what a gather gives out of range: `fill_value`, NaN, or for integers the smallest (unsigned: largest)."""
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
