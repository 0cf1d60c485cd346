"""Sorts: every output is its operand at the places of one permutation, which the keys decide on."""

from __future__ import annotations

from samebits.interpret.all_sizes.demand import Demand, Index
from samebits.interpret.all_sizes.facts import Integer, MapPiece, Whole, variables_in
from samebits.interpret.all_sizes.permutations import Permutation
from samebits.interpret.all_sizes.polynomial import Polynomial
from samebits.interpret.all_sizes.results import whole_result

_PLACE = "sorted place"


def sort(demand: Demand) -> list[MapPiece]:
    """A place of an output: the operand at the place that the order has there."""
    params = demand.params
    axis, stable = params["dimension"], params["is_stable"]
    # Without stability the order of equal keys may depend on what is sorted along with them.
    deciding = range(params["num_keys"] if stable else demand.count)
    keys = [_key(demand, number) for number in deciding]
    if any(key is None for key in keys):
        return whole_result(demand)
    wholes = tuple(key for key in keys if key is not None)
    dtypes = ", ".join(demand.dtype(number).name for number in deciding)
    kind = "stable" if stable else "unstable"
    wanted = Permutation(
        operation=f"{kind} order of {params['num_keys']} keys along {axis}: {dtypes}",
        operands=wholes,
        index=demand.index,
        axis=axis,
        size=demand.output_shape[axis],
    )
    place = _inverse(demand, wanted) if len(wholes) == 1 or stable else None
    if place is None:
        place = demand.space.permutations.value(demand.space, wanted)
    return demand.operand(demand.number, (*demand.index[:axis], place, *demand.index[axis + 1 :]))


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
