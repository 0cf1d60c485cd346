"""Stable sorts: every output is its operand at the places of one permutation, which the keys decide on.

What an unstable sort does with equal keys is for the compiler to say: it is a result of its operands as wholes.
"""

from __future__ import annotations

from samebits.sizes.places.demand import Demand, Index
from samebits.sizes.places.facts import Facts, Integer, MapPiece, Whole, equal, variables_in
from samebits.sizes.places.permutations import Permutation
from samebits.sizes.places.polynomial import Polynomial
from samebits.sizes.places.results import whole_result
from samebits.sizes.places.solving import digits_of, solve

_PLACE = "sorted place"


def sort(demand: Demand) -> list[MapPiece]:
    """A place of an output: the operand at the place that the order has there."""
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
    """Where each number stands, by cases, if the keys are the numbers of a permutation that is computed; None else.

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
    """An operand at bound indices of names that are the same for all sorts; None where it is not of these alone.

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
    """The order of the numbers of a permutation: its inverse."""
    whole = wanted.operands[0]
    if len(whole.pieces) != 1 or whole.pieces[0].facts or not isinstance(whole.pieces[0].source, Integer):
        return None
    number = whole.pieces[0].source.value
    known = demand.space.permutations.at_value(demand.space, number)
    if known is None or known.index != whole.index or known.axis != wanted.axis or known.size != wanted.size:
        return None
    return demand.space.permutations.value(demand.space, _moved(known, wanted))


def _moved(known: Permutation, wanted: Permutation) -> Permutation:
    return Permutation(known.operation, known.operands, wanted.index, wanted.axis, wanted.size, not known.inverse)
