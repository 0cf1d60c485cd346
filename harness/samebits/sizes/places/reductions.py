"""Sums over axes, and largest and smallest elements of floats: what they are of, at bound indices."""

from __future__ import annotations

from collections.abc import Sequence

from samebits.numerics.floats import is_float
from samebits.sizes.formulas.substitution import reached
from samebits.sizes.places.demand import Demand, Index
from samebits.sizes.places.facts import Facts, MapPiece, Reduction, Term, at_least
from samebits.sizes.places.polynomial import Polynomial
from samebits.sizes.places.results import BOUND, depth_of, whole_result

_KINDS = {"reduce_sum": "sum", "reduce_max": "max", "reduce_min": "min", "cumsum": "sum"}
REDUCTIONS = frozenset(_KINDS)
"""Primitives that are sums or extremes; an extreme of integers is a result of a whole array."""


def bound_indices(demand: Demand, sizes: Sequence[Polynomial]) -> Index:
    """New indices below sizes, numbered by how many are around them."""
    around = {name for p in demand.index for name in p.variables}
    around |= {name for fact in demand.facts for name in fact.polynomial.variables}
    around |= {name for p in demand.devices.values() for name in p.variables}
    depth = 1 + max(map(depth_of, reached(demand.space, around)), default=-1)
    return tuple(demand.space.index(f"{BOUND}{depth}.0.{axis}", size) for axis, size in enumerate(sizes))


def names_of(demand: Demand, indices: Index) -> tuple[str, ...]:
    """The names of bound indices or of their digits."""
    return tuple(sorted({name for p in indices for name in p.variables} - demand.space.lowest.keys()))


def reduction(demand: Demand) -> list[MapPiece]:
    """A sum, a largest or a smallest element over axes, or a sum of all elements up to a place."""
    # A sum of integers wraps around in whatever order; an extreme of them is compared as a result of a whole array.
    if not is_float(demand.output_dtype) and (_KINDS[demand.name] != "sum" or demand.output_dtype.kind not in "iu"):
        return whole_result(demand)
    if demand.name == "cumsum":
        return _cumulative(demand)
    axes, shape = demand.params["axes"], demand.shape(0)
    bound = bound_indices(demand, [shape[axis] for axis in axes])
    summed, kept = dict(zip(axes, bound, strict=True)), iter(demand.index)
    index = tuple(summed[axis] if axis in summed else next(kept) for axis in range(len(shape)))
    return [MapPiece((), _made(demand, bound, demand.operand(0, index)))]


def _cumulative(demand: Demand) -> list[MapPiece]:
    axis = demand.params["axis"]
    (place,) = bound_indices(demand, [demand.shape(0)[axis]])
    here = demand.index[axis]
    upto: Facts = (at_least(place, here) if demand.params["reverse"] else at_least(here, place),)
    index = (*demand.index[:axis], place, *demand.index[axis + 1 :])
    return [MapPiece((), _made(demand, (place,), demand.operand(0, index, upto)))]


def _made(demand: Demand, bound: Index, pieces: list[MapPiece]) -> Reduction:
    return Reduction(_KINDS[demand.name], demand.output_dtype.name, names_of(demand, bound), tuple(pieces))


def product_of(demand: Demand, summed: Index, places: tuple[Index, Index], where: Facts = ()) -> list[MapPiece]:
    """A product of matrices: the sum of the products of two elements, or of those where facts hold."""
    pieces = [
        MapPiece(second.facts, Term(f"mul[]:{demand.output_dtype.name}", (first.source, second.source)))
        for first in demand.operand(0, places[0], where)
        for second in demand.operand(1, places[1], first.facts)
    ]
    return [MapPiece((), Reduction("sum", demand.output_dtype.name, names_of(demand, summed), tuple(pieces)))]
