"""One product in place of two that differ in one fact alone, where the two facts exclude each other and make up one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from samebits.interpret.all_sizes.facts import Fact, Facts
from samebits.interpret.all_sizes.formulas.formula import Summand
from samebits.interpret.all_sizes.polynomial import of, variable
from samebits.interpret.all_sizes.space import Space


def merged(space: Space, summands: Iterable[Summand]) -> tuple[Summand, ...]:
    """Summands with the same sum, of which no two can be merged."""
    kept: list[Summand] = []
    todo = list(summands)
    while todo:
        summand = todo.pop(0)
        for number, other in enumerate(kept):
            whole = _both(space, other, summand)
            if whole is not None:
                del kept[number]
                todo.insert(0, whole)
                break
        else:
            kept.append(summand)
    return tuple(kept)


def _both(space: Space, first: Summand, second: Summand) -> Summand | None:
    """The summand that stands where one of the two does; None where there is none, or both may stand at one place."""
    if replace(first, facts=()) != replace(second, facts=()):
        return None
    mine = [fact for fact in first.facts if fact not in second.facts]
    others = [fact for fact in second.facts if fact not in first.facts]
    if len(mine) != 1 or len(others) != 1:
        return None
    for fact, other in ((mine[0], others[0]), (others[0], mine[0])):
        union = _union(space, fact, other)
        if union is not None:
            return replace(first, facts=(*(kept for kept in first.facts if kept not in mine), *union))
    return None


def _union(space: Space, first: Fact, second: Fact) -> Facts | None:
    """What holds where one of two facts does that exclude each other; None where that is not a fact."""
    p, q = first.polynomial, second.polynomial
    match first.kind, second.kind:
        case "not_negative", "not_negative" if q == -p - 1:
            return ()
        case "zero", "not_negative":
            return next((((Fact("not_negative", side),)) for side in (p, -p) if q == side - 1), None)
        case "zero", "zero":
            names = p.variables
            boolean = len(names) == 1 and space.ranges.get(next(iter(names))) == of(2)
            x = variable(next(iter(names), ""))
            return () if boolean and p in (x, -x) and q in (x - 1, 1 - x) else None
    return None
