"""Comparisons with infinity: they are assumed to say that a computed number is finite, which is then a condition."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from samebits.sizes.places.facts import Fact, Facts, MapPiece, Number, Term
from samebits.sizes.places.polynomial import variable
from samebits.sizes.places.space import Space

FINITE = "no computed number that is compared with infinity is infinite"


def without_infinities(space: Space, pieces: Iterable[MapPiece], note: Callable[[str], None]) -> list[MapPiece]:
    """The pieces for finite numbers, without the facts that say so."""
    kept = []
    for piece in pieces:
        if says_infinite(space, piece.facts):
            note(FINITE)
            continue
        facts = tuple(fact for fact in piece.facts if _compared(space, fact) is None)
        kept.append(MapPiece(facts, piece.source))
    return kept


def says_infinite(space: Space, facts: Facts) -> bool:
    """Whether facts say that a computed number is infinite."""
    return any(_compared(space, fact) for fact in facts)


def _compared(space: Space, fact: Fact) -> bool | None:
    """Whether a fact says that a computed number is infinite; None where it compares none with infinity."""
    if fact.kind != "zero" or len(fact.polynomial.variables) != 1:
        return None
    (name,) = fact.polynomial.variables
    source = space.sources.get(name)
    if not isinstance(source, Term):
        return None
    name_of_operation = source.operation.partition("[")[0]
    is_true = fact.polynomial in (variable(name) - 1, 1 - variable(name))
    if name_of_operation == "is_finite":
        return not is_true if isinstance(source.operands[0], Term) else None
    if name_of_operation not in ("eq", "ne"):
        return None
    kinds = [isinstance(operand, Number) and operand.text in ("inf", "-inf") for operand in source.operands]
    if sum(kinds) != 1 or not all(kinds[n] or isinstance(operand, Term) for n, operand in enumerate(source.operands)):
        return None
    return is_true == (name_of_operation == "eq")
