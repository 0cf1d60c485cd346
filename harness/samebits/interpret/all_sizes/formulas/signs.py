"""Comparisons with 0 of numbers that are not negative by how they are computed, as a sum of exponentials is."""

from __future__ import annotations

from collections.abc import Iterable

from samebits.interpret.all_sizes.facts import Fact, Facts, MapPiece, Number, Reduction, Source, Term
from samebits.interpret.all_sizes.space import Space

_NEVER_NEGATIVE = frozenset({"abs", "exp", "exp2", "logistic", "sqrt", "square"})
_OF_OPERANDS = frozenset({"add", "add_any", "convert_element_type", "div", "max", "min", "mul", "reduce_precision"})
_ANSWERS = {("ge", 1): 1, ("lt", 1): 0, ("le", 0): 1, ("gt", 0): 0}
"""By comparison and the operand that is 0, the answer where the other one is not negative."""


def never_negative(source: Source) -> bool:
    """Whether a float is not negative, if it is not NaN: each of its operations is of such floats or gives such.

    Rounding does not matter: it is monotone and 0 is a float, so that a sum, product or quotient of floats that are
    not negative is not rounded below 0.
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
    """The pieces without those that stand where a number of this kind is negative, and without facts that it is not."""
    return [
        MapPiece(tuple(fact for fact in piece.facts if _holds(space, fact) is None), piece.source)
        for piece in pieces
        if not says_negative(space, piece.facts)
    ]


def says_negative(space: Space, facts: Facts) -> bool:
    """Whether facts say that a number is negative that never is."""
    return any(_holds(space, fact) is False for fact in facts)


def _holds(space: Space, fact: Fact) -> bool | None:
    """Whether a fact about the answer of a comparison with 0 holds; None of any other fact."""
    if len(fact.polynomial.variables) != 1:
        return None
    (name,) = fact.polynomial.variables
    source = space.sources.get(name)
    answer = _answer(source) if isinstance(source, Term) else None
    if answer is None:
        return None
    value = fact.polynomial.value({name: answer})
    return value >= 0 if fact.kind == "not_negative" else value == 0


def _answer(comparison: Term) -> int | None:
    name = comparison.operation.partition("[")[0]
    for number, operand in enumerate(comparison.operands if len(comparison.operands) == 2 else ()):
        is_zero = isinstance(operand, Number) and operand.text in ("0.0", "-0.0")
        if is_zero and (name, number) in _ANSWERS and never_negative(comparison.operands[1 - number]):
            return _ANSWERS[name, number]
    return None
