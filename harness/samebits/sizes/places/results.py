"""Operations on whole arrays, such as sums, sorts and products: the same results where all operands are the same."""

from __future__ import annotations

from samebits.sizes.formulas.substitution import reached
from samebits.sizes.places.demand import Demand, Index
from samebits.sizes.places.facts import MapPiece, Whole, WholeResult
from samebits.sizes.places.polynomial import Polynomial
from samebits.sizes.places.terms import operation_text

WHOLE = frozenset(
    {"argmax", "argmin", "cumlogsumexp", "cummax", "cummin", "cumprod", "cumsum", "reduce_and", "reduce_max"}
    | {"reduce_min", "reduce_or", "reduce_prod", "reduce_sum", "reduce_xor", "top_k"}
)
"""Primitives whose parameters and operands say all about their results."""

BOUND = "bound "
"""How the names of bound indices begin."""


def whole_result(demand: Demand) -> list[MapPiece]:
    """A place of the result of an operation on whole arrays; a product of matrices is one too."""
    operands = tuple(_whole(demand, number) for number in range(demand.count))
    text = f"{operation_text(demand)} {demand.number}"
    return [MapPiece((), WholeResult(text, demand.index, operands, _places(demand)))]


def _places(demand: Demand) -> Polynomial | None:
    """How many places there are of which a result is one; None where it is not a place."""
    if demand.name in ("argmax", "argmin"):
        return demand.shape(0)[int(demand.params["axes"][0])]
    if demand.name == "top_k" and demand.number == 1:
        return demand.shape(0)[int(demand.params.get("axis", -1))]
    return None


def _whole(demand: Demand, number: int) -> Whole:
    """An operand at bound indices, which are numbered by how many are around them."""
    depth = 1 + max(map(depth_of, reached(demand.space, (n for p in demand.index for n in p.variables))), default=-1)
    shape = demand.shape(number)
    index: Index = tuple(demand.space.index(f"{BOUND}{depth}.{number}.{axis}", n) for axis, n in enumerate(shape))
    pieces = demand.alone().operand(number, index)
    return Whole(shape, index, tuple(pieces))


def depth_of(name: str) -> int:
    """How many bound indices are around one, by its name; -1 of any other name."""
    return int(name.removeprefix(BOUND).partition(".")[0]) if name.startswith(BOUND) else -1
