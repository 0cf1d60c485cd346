"""Whether rounding decides which element stands at a place: an index or a condition that is computed of floats.

Both sides then select by the same formula, and other roundings of it may select another element.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from samebits.sizes.formulas.substitution import reached
from samebits.sizes.places.facts import (
    Element,
    Facts,
    Integer,
    MapPiece,
    Number,
    Reduction,
    Source,
    Term,
    WholeResult,
    variables_in,
)
from samebits.sizes.places.space import Space
from samebits.sizes.places.terms import WIDER

_EXACT = frozenset(
    {"abs", "and", "ceil", "clamp", "eq", "floor", "ge", "gt", "is_finite", "le", "lt", "max", "min", "ne", "neg"}
    | {"not", "or", "population_count", "round", "shift_left", "shift_right_logical", "sign", "xor"}
)
"""Operations on elements that round nothing, of floats either."""

_SELECTING = frozenset(
    {"argmax", "argmin", "cummax", "cummin", "reduce_and", "reduce_max", "reduce_min", "reduce_or", "reduce_xor"}
    | {"sort", "top_k"}
)
"""Operations on whole arrays that only compare their elements."""

_WHOLE_NUMBERS = ("bool", "int", "uint")


def rounding_decides(space: Space, facts: Facts, sources: Iterable[Source]) -> bool:
    """Whether what stands at a place is selected by numbers that are rounded.

    Args:
        space: sizes and indices.
        facts: of the place.
        sources: what stands there.
    """
    names = {name for fact in facts for name in fact.polynomial.variables}
    names |= {name for source in sources for name in variables_in(source)}
    return any(_is_rounded(space, space.sources[name]) for name in reached(space, names) if name in space.sources)


def _is_rounded(space: Space, source: Source) -> bool:
    """Whether a number is the result of arithmetic on floats, or is selected by one that is."""
    match source:
        case Integer() | Number() | Element():
            return False  # of an element's index the names are reached too
        case Term(operation=operation, operands=operands):
            return not _is_exact(operation) or any(_is_rounded(space, operand) for operand in operands)
        case Reduction(kind=kind, dtype=dtype, pieces=pieces):
            return (kind == "sum" and not dtype.startswith(_WHOLE_NUMBERS)) or _any_rounded(space, pieces)
        case WholeResult(operation=operation, operands=wholes):
            return not _selects(operation) or any(_any_rounded(space, whole.pieces) for whole in wholes)
    return True


def _any_rounded(space: Space, pieces: Sequence[MapPiece]) -> bool:
    return any(
        rounding_decides(space, piece.facts, [piece.source]) or _is_rounded(space, piece.source) for piece in pieces
    )


def _is_exact(operation: str) -> bool:
    """Whether an operation on elements is exact: of whole numbers, a comparison, or a cast that loses nothing."""
    if operation.startswith(WIDER):
        return True
    before, _, after = operation.partition(" to ")
    if after:
        return before.startswith(_WHOLE_NUMBERS) and after.startswith(_WHOLE_NUMBERS)
    return operation.partition("[")[0] in _EXACT or operation.rpartition(":")[2].startswith(_WHOLE_NUMBERS)


def _selects(operation: str) -> bool:
    """Whether an operation on whole arrays only moves or compares what it takes, in an order that is said."""
    name, dtype = operation.partition("[")[0], operation.rpartition(":")[2]
    if "is_stable=False" in operation:
        return False
    return (
        name in _SELECTING or name.removeprefix("inverse ").startswith("order of") or dtype.startswith(_WHOLE_NUMBERS)
    )
