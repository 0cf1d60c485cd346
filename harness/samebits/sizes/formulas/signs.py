"""Comparisons whose answer is known: with 0, of sums of exponentials or of sizes, and of a number with itself."""

from __future__ import annotations

from collections.abc import Iterable

from samebits.sizes.places.facts import Fact, Facts, Integer, MapPiece, Number, Reduction, Source, Term
from samebits.sizes.places.space import Space

_NEVER_NEGATIVE = frozenset({"abs", "exp", "exp2", "logistic", "sqrt", "square"})
_OF_OPERANDS = frozenset({"add", "add_any", "convert_element_type", "div", "max", "min", "mul", "reduce_precision"})
_ANSWERS = {("ge", 1): 1, ("lt", 1): 0, ("le", 0): 1, ("gt", 0): 0}
"""By comparison and the operand that is 0, the answer where the other one is not negative."""

_OF_ITSELF = {"eq": 1, "ge": 1, "le": 1, "ne": 0, "gt": 0, "lt": 0}
"""By comparison, the answer of a number and itself, if it is not NaN."""

_FROM_INTEGER = ("int32 to float", "int64 to float", "int32 to bfloat", "int64 to bfloat")
_SMALL = frozenset(str(float(number)) for number in range(65)) | {"-0.0"}
_OF_SIGN = {"gt": {1: 1, 0: 0, -1: 0}, "ge": {1: 1, -1: 0}, "lt": {1: 0, -1: 1}, "le": {1: 0, 0: 1, -1: 1}}
"""By comparison with 0, its answer of what is at least 1 (1), at most 0 (0), and at most -1 (-1)."""


def never_negative(source: Source) -> bool:
    """Tell whether a float is not negative, if it is not NaN: each of its operations is of such floats or gives such.

    Rounding does not matter: it is monotone and 0 is a float, so that a sum, product or quotient of floats that are not
    negative is not rounded below 0.
    """
    match source:
        case Number(text=text):
            return text == "inf" or (text not in ("-inf", "nan") and float(text) >= 0)
        case Reduction(kind=kind, pieces=pieces):
            # The largest of nothing is -inf.
            return kind in ("sum", "min") and all(never_negative(piece.source) for piece in pieces)
        case Term(operation=operation, operands=operands):
            name = operation.partition("[")[0]
            return name in _NEVER_NEGATIVE or (name in _OF_OPERANDS and all(map(never_negative, operands)))
    return False


def possible(space: Space, pieces: Iterable[MapPiece]) -> list[MapPiece]:
    """Drop the pieces that stand where a number that is never negative is, and the facts that it is not."""
    return [
        MapPiece(tuple(fact for fact in piece.facts if _holds(space, fact) is None), piece.source)
        for piece in pieces
        if not says_negative(space, piece.facts)
    ]


def says_negative(space: Space, facts: Facts) -> bool:
    """Tell whether facts say that a number is negative that never is, or another one than itself."""
    return any(_holds(space, fact) is False for fact in facts)


def _holds(space: Space, fact: Fact) -> bool | None:
    """Tell whether a fact about the answer of a comparison with 0 holds; None of any other fact."""
    if len(fact.polynomial.variables) != 1:
        return None
    (name,) = fact.polynomial.variables
    source = space.sources.get(name)
    answer = _answer(space, source) if isinstance(source, Term) else None
    if answer is None:
        return None
    value = fact.polynomial.value({name: answer})
    return value >= 0 if fact.kind == "not_negative" else value == 0


def _answer(space: Space, comparison: Term) -> int | None:
    name = comparison.operation.partition("[")[0]
    if (sign := _sign_of_size(space, comparison)) is not None:
        return sign
    if len(comparison.operands) == 2 and comparison.operands[0] == comparison.operands[1]:
        return _OF_ITSELF.get(name)  # as `isnan` asks
    for number, operand in enumerate(comparison.operands if len(comparison.operands) == 2 else ()):
        if _is_zero(operand) and (name, number) in _ANSWERS and never_negative(comparison.operands[1 - number]):
            return _ANSWERS[name, number]
    return None


def _sign_of_size(space: Space, comparison: Term) -> int | None:
    """Compare a size, as a float and perhaps less a number, with 0: `jnp.var` asks it of its divisor.

    Rounding does not matter: it is monotone, and every dtype has the small integers that are taken off.
    """
    name = comparison.operation.partition("[")[0]
    if name not in _OF_SIGN or len(comparison.operands) != 2 or not _is_zero(comparison.operands[1]):
        return None
    source, less = comparison.operands[0], 0
    if isinstance(source, Term) and source.operation.partition("[")[0] == "sub":
        source, taken = source.operands
        if not isinstance(taken, Number) or taken.text not in _SMALL:
            return None
        less = int(float(taken.text))
    if not (isinstance(source, Term) and source.operation.startswith(_FROM_INTEGER) and len(source.operands) == 1):
        return None
    (size,) = source.operands
    if isinstance(size, Integer):
        above = size.value - less
        for sign, fact in ((1, above - 1), (-1, -above - 1), (0, -above)):
            if space.proves((), fact):
                return _OF_SIGN[name].get(sign)
    return None


def _is_zero(source: Source) -> bool:
    return isinstance(source, Number) and source.text in ("0.0", "-0.0")
