"""Primitives that move elements: at which place of its operand each place of an output stands."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from samebits.sizes.places.demand import Demand, Index
from samebits.sizes.places.facts import Facts, Integer, MapPiece, Term, at_least, below, complement, equal
from samebits.sizes.places.polynomial import Polynomial, of, product

Rule = Callable[[Demand], list[MapPiece]]


def _reshape(demand: Demand) -> list[MapPiece]:
    shape = demand.shape(0)
    order = demand.params.get("dimensions") or range(len(shape))  # of the axes, before they are joined and cut
    places = reshaped(demand, demand.index, demand.output_shape, tuple(shape[axis] for axis in order))
    by_axis = dict(zip(order, places, strict=True))
    return demand.operand(0, tuple(by_axis[axis] for axis in range(len(shape))))


def reshaped(demand: Demand, index: Index, shape: Index, other: Index) -> Index:
    """Return the place in an array of another shape; as few axes as possible are joined and cut, from the last on."""
    space = demand.space
    sources = [(place, size) for place, size in zip(index, shape, strict=True) if size.constant != 1]
    targets = [(axis, size) for axis, size in enumerate(other) if size.constant != 1]
    places = [of(0)] * len(other)
    while targets or sources:
        joined, wanted = [sources.pop()] if sources else [], [targets.pop()] if targets else []
        while (have := product(size for _, size in joined)) != (want := product(size for _, size in wanted)):
            if sources and (not targets or have.quotient(want) is None):
                joined.append(sources.pop())
            elif targets:
                wanted.append(targets.pop())
            else:
                raise demand.not_covered(f"the sizes {have} and {want} are not shown to be equal")
        flat = of(0)
        for place, size in reversed(joined):
            flat = flat * size + place
        for number, (axis, size) in enumerate(wanted):
            if number == len(wanted) - 1:
                places[axis] = flat
            else:
                flat, places[axis] = space.divide(flat, size, demand.facts)
    return tuple(places)


def _transpose(demand: Demand) -> list[MapPiece]:
    places = [of(0)] * len(demand.index)
    for place, axis in zip(demand.index, demand.params["permutation"], strict=True):
        places[axis] = place
    return demand.operand(0, tuple(places))


def _squeeze(demand: Demand) -> list[MapPiece]:
    places = iter(demand.index)
    dropped = {axis % len(demand.shape(0)) for axis in demand.params["dimensions"]}
    return demand.operand(0, tuple(of(0) if axis in dropped else next(places) for axis in range(len(demand.shape(0)))))


def _expand_dims(demand: Demand) -> list[MapPiece]:
    added = {axis % len(demand.index) for axis in demand.params["dimensions"]}
    return demand.operand(0, tuple(place for axis, place in enumerate(demand.index) if axis not in added))


def _broadcast_in_dim(demand: Demand) -> list[MapPiece]:
    places = zip(demand.shape(0), demand.params["broadcast_dimensions"], strict=True)
    return demand.operand(0, tuple(of(0) if size.constant == 1 else demand.index[axis] for size, axis in places))


def _rev(demand: Demand) -> list[MapPiece]:
    flipped = demand.params["dimensions"]
    places = enumerate(zip(demand.index, demand.shape(0), strict=True))
    return demand.operand(0, tuple(size - 1 - at if axis in flipped else at for axis, (at, size) in places))


def _slice(demand: Demand) -> list[MapPiece]:
    params, space = demand.params, demand.space
    strides = params["strides"] or (1,) * len(demand.index)
    bounds = zip(demand.index, params["start_indices"], strides, strict=True)
    return demand.operand(0, tuple(at * space.size(step) + space.size(start) for at, start, step in bounds))


def _moved(index: Index, axis: int, place: Polynomial) -> Index:
    return (*index[:axis], place, *index[axis + 1 :])


def _split(demand: Demand) -> list[MapPiece]:
    axis, sizes = demand.params["axis"], demand.params["sizes"]
    start = sum((demand.space.size(size) for size in sizes[: demand.number]), of(0))
    return demand.operand(0, _moved(demand.index, axis, demand.index[axis] + start))


def _concatenate(demand: Demand) -> list[MapPiece]:
    axis, start, pieces = demand.params["dimension"], of(0), []
    place = demand.index[axis]
    for number in range(demand.count):
        end = start + demand.shape(number)[axis]
        inside = (at_least(place, start), below(place, end))
        pieces += demand.operand(number, _moved(demand.index, axis, place - start), inside)
        start = end
    return pieces


def _stack(demand: Demand) -> list[MapPiece]:
    axis = demand.params["axis"]
    rest = (*demand.index[:axis], *demand.index[axis + 1 :])
    parts = (demand.operand(number, rest, (equal(demand.index[axis], number),)) for number in range(demand.count))
    return [piece for pieces in parts for piece in pieces]


def _unstack(demand: Demand) -> list[MapPiece]:
    axis = demand.params["axis"]
    return demand.operand(0, (*demand.index[:axis], of(demand.number), *demand.index[axis:]))


def _tile(demand: Demand) -> list[MapPiece]:
    places = zip(demand.index, demand.shape(0), strict=True)
    return demand.operand(0, tuple(demand.space.divide(at, size, demand.facts)[1] for at, size in places))


def _pad(demand: Demand) -> list[MapPiece]:
    space = demand.space
    inside: Facts = ()
    places = []
    config = zip(demand.index, demand.shape(0), demand.params["padding_config"], strict=True)
    for at, size, (low, _, between) in config:
        moved = at - space.size(low)
        place, rest = space.divide(moved, space.size(between) + 1, demand.facts)
        inside = (*inside, equal(rest, 0), at_least(place, 0), below(place, size))
        places.append(place)
    pieces = demand.operand(0, tuple(places), inside)
    for outside in complement(fact for fact in inside if fact.polynomial.terms):
        pieces += demand.operand(1, (), outside)
    return pieces


def _iota(demand: Demand) -> list[MapPiece]:
    from samebits.sizes.places.integers import integer_pieces

    place = demand.index[demand.params["dimension"]]
    if demand.output_dtype.kind not in "iu":
        return [MapPiece((), Term(f"iota:{demand.output_dtype.name}", (Integer(place),)))]
    return integer_pieces(demand, [((), place)])


def _select_n(demand: Demand) -> list[MapPiece]:
    pieces = []
    for facts, which in demand.integers(0, demand.broadcast_index(0)):
        for number in range(demand.count - 1):
            pieces += demand.broadcast(number + 1, (*facts, equal(which, number)))
    return pieces


def within(place: Polynomial, size: Polynomial) -> Facts:
    """Say that a place lies in an axis of a size."""
    return (equal(place, 0),) if size.constant == 1 else (at_least(place, 0), below(place, size))


def clamped(demand: Demand, start: Polynomial, facts: Facts, room: Polynomial) -> list[tuple[Facts, Polynomial]]:
    """Push a start back to 0 and to the last start with room, by cases."""
    space = demand.space
    cases: Sequence[tuple[Facts, Polynomial]] = (
        ((*facts, at_least(start, 0), at_least(room, start)), start),
        ((*facts, below(start, 0)), of(0)),
        ((*facts, at_least(start, 0), below(room, start)), room),
    )
    return [(own, place) for own, place in cases if not space.contradicts((*demand.facts, *own))]


def _starts(demand: Demand, first: int, rooms: Sequence[Polynomial]) -> list[tuple[Facts, Index]]:
    """Return the clamped starts of a window by cases: one scalar operand for every axis."""
    cases: list[tuple[Facts, Index]] = [((), ())]
    for number, room in enumerate(rooms):
        cases = [
            (own, (*before, place))
            for facts, before in cases
            for more, start in demand.integers(first + number, (), facts)
            for own, place in clamped(demand, start, more, room)
        ]
    return cases


def _dynamic_slice(demand: Demand) -> list[MapPiece]:
    space = demand.space
    sizes = [space.size(size) for size in demand.params["slice_sizes"]]
    rooms = [size - window for size, window in zip(demand.shape(0), sizes, strict=True)]
    pieces = []
    for facts, starts in _starts(demand, 1, rooms):
        places = tuple(at + start for at, start in zip(demand.index, starts, strict=True))
        pieces += demand.operand(0, places, facts)
    return pieces


def _dynamic_update_slice(demand: Demand) -> list[MapPiece]:
    windows = demand.shape(1)
    rooms = [size - window for size, window in zip(demand.shape(0), windows, strict=True)]
    pieces = []
    for facts, starts in _starts(demand, 2, rooms):
        places = tuple(at - start for at, start in zip(demand.index, starts, strict=True))
        inside = [fact for at, n in zip(places, windows, strict=True) for fact in within(at, n)]
        pieces += demand.operand(1, places, (*facts, *inside))
        for outside in complement(inside):
            pieces += demand.operand(0, demand.index, (*facts, *outside))
    return pieces


MOVEMENT: dict[str, Rule] = {
    "broadcast_in_dim": _broadcast_in_dim,
    "concatenate": _concatenate,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "expand_dims": _expand_dims,
    "iota": _iota,
    "pad": _pad,
    "reshape": _reshape,
    "rev": _rev,
    "select_n": _select_n,
    "slice": _slice,
    "split": _split,
    "squeeze": _squeeze,
    "stack": _stack,
    "tile": _tile,
    "transpose": _transpose,
    "unstack": _unstack,
}
