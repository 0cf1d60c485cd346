"""Sums over axes, and largest and smallest elements of floats: what they are of, at bound indices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from samebits.numerics.floats import is_float
from samebits.sizes.formulas.formula import reached
from samebits.sizes.places.demand import Demand, Index, operation_text
from samebits.sizes.places.facts import Facts, MapPiece, Reduction, Term, Whole, WholeResult, at_least, below, equal
from samebits.sizes.places.movement import Rule
from samebits.sizes.places.polynomial import Polynomial

# Operations on whole arrays, such as sums, sorts and products: the same results where all operands are the same.
WHOLE = frozenset(
    {"argmax", "argmin", "cumlogsumexp", "cummax", "cummin", "cumprod", "cumsum", "reduce_and", "reduce_max"}
    | {"reduce_min", "reduce_or", "reduce_prod", "reduce_sum", "reduce_xor", "top_k"}
)
"""Primitives whose parameters and operands say all about their results."""

BOUND = "bound "
"""How the names of bound indices begin."""


def whole_result(demand: Demand) -> list[MapPiece]:
    """Return a place of the result of an operation on whole arrays; a product of matrices is one too."""
    operands = tuple(_whole(demand, number) for number in range(demand.count))
    text = f"{operation_text(demand)} {demand.number}"
    return [MapPiece((), WholeResult(text, demand.index, operands, _places(demand)))]


def _places(demand: Demand) -> Polynomial | None:
    """Return how many places there are of which a result is one; None where it is not a place."""
    if demand.name in ("argmax", "argmin"):
        return demand.shape(0)[int(demand.params["axes"][0])]
    if demand.name == "top_k" and demand.number == 1:
        return demand.shape(0)[int(demand.params.get("axis", -1))]
    return None


def _whole(demand: Demand, number: int) -> Whole:
    """Return an operand at bound indices, which are numbered by how many are around them."""
    depth = 1 + max(map(depth_of, reached(demand.space, (n for p in demand.index for n in p.variables))), default=-1)
    shape = demand.shape(number)
    index: Index = tuple(demand.space.index(f"{BOUND}{depth}.{number}.{axis}", n) for axis, n in enumerate(shape))
    pieces = demand.alone().operand(number, index)
    return Whole(shape, index, tuple(pieces))


def depth_of(name: str) -> int:
    """Return how many bound indices are around one, by its name; -1 of any other name."""
    return int(name.removeprefix(BOUND).partition(".")[0]) if name.startswith(BOUND) else -1


_KINDS = {"reduce_sum": "sum", "reduce_max": "max", "reduce_min": "min", "cumsum": "sum"}
REDUCTIONS = frozenset(_KINDS)
"""Primitives that are sums or extremes; an extreme of integers is a result of a whole array."""


def bound_indices(demand: Demand, sizes: Sequence[Polynomial]) -> Index:
    """Make new indices below sizes, numbered by how many are around them."""
    around = {name for p in demand.index for name in p.variables}
    around |= {name for fact in demand.facts for name in fact.polynomial.variables}
    around |= {name for p in demand.devices.values() for name in p.variables}
    depth = 1 + max(map(depth_of, reached(demand.space, around)), default=-1)
    return tuple(demand.space.index(f"{BOUND}{depth}.0.{axis}", size) for axis, size in enumerate(sizes))


def names_of(demand: Demand, indices: Index) -> tuple[str, ...]:
    """Return the names of bound indices or of their digits."""
    return tuple(sorted({name for p in indices for name in p.variables} - demand.space.lowest.keys()))


def reduction(demand: Demand) -> list[MapPiece]:
    """Sum over axes or up to a place, or take the largest or smallest element."""
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
    """Multiply matrices: the sum of the products of two elements, or of those where facts hold."""
    pieces = [
        MapPiece(second.facts, Term(f"mul[]:{demand.output_dtype.name}", (first.source, second.source)))
        for first in demand.operand(0, places[0], where)
        for second in demand.operand(1, places[1], first.facts)
    ]
    return [MapPiece((), Reduction("sum", demand.output_dtype.name, names_of(demand, summed), tuple(pieces)))]


# Windows that slide over an array: the places that they read, and sums and extremes over them.
_WINDOW_KINDS = {"reduce_window_sum": "sum", "reduce_window_max": "max", "reduce_window_min": "min"}


class SlidingWindow(NamedTuple):
    """A window along one dimension.

    Args:
        stride: how far apart windows begin.
        gap: how far apart the places are that one window reads.
        low: how many places of padding come first.
        spread: how far apart the elements lie; between them are zeros.
    """

    stride: Polynomial
    gap: Polynomial
    low: Polynomial
    spread: Polynomial

    def place(self, demand: Demand, size: Polynomial, number: Polynomial, step: Polynomial) -> tuple[Polynomial, Facts]:
        """Return the place that a window reads at a step, and that there is one: not in the padding, not in a gap."""
        place = number * self.stride + step * self.gap - self.low
        if self.spread.constant == 1:
            return place, (at_least(place, 0), below(place, size))
        place, rest = demand.space.divide(place, self.spread, demand.facts)
        return place, (equal(rest, 0), at_least(place, 0), below(place, size))


def _reduce_window(demand: Demand) -> list[MapPiece]:
    """Sum each window, or take its largest or smallest element; padding does not count."""
    if not is_float(demand.output_dtype):
        raise demand.not_covered("windows of a non-float dtype")
    params, size = demand.params, demand.space.size
    steps = bound_indices(demand, [size(n) for n in params["window_dimensions"]])
    index: list[Polynomial] = []
    where: Facts = ()
    for axis, (shape, number, step) in enumerate(zip(demand.shape(0), demand.index, steps, strict=True)):
        window = SlidingWindow(
            size(params["window_strides"][axis]),
            size(params["window_dilation"][axis]),
            size(params["padding"][axis][0]),
            size(params["base_dilation"][axis]),
        )
        place, facts = window.place(demand, shape, number, step)
        index.append(place)
        where = (*where, *facts)
    pieces = demand.operand(0, tuple(index), where)
    kind, dtype = _WINDOW_KINDS[demand.name], demand.output_dtype.name
    return [MapPiece((), Reduction(kind, dtype, names_of(demand, steps), tuple(pieces)))]


WINDOWS: dict[str, Rule] = dict.fromkeys(_WINDOW_KINDS, _reduce_window)
"""Primitives that reduce each window of an array."""
