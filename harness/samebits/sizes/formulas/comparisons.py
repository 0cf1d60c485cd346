"""Comparisons of floats that both programs compute: over the reals, equal numbers give equal answers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable

from samebits.sizes.formulas.substitution import reached
from samebits.sizes.places.facts import Fact, Facts, Source, Term, equal, variables_in
from samebits.sizes.places.polynomial import variable
from samebits.sizes.places.results import depth_of
from samebits.sizes.places.space import Space

ALIKE = "no two computed numbers that are compared are closer than what rounding changes"

_COMPARISONS = frozenset({"eq", "ge", "gt", "is_finite", "le", "lt", "ne"})

_ORDERS = frozenset({"ge", "gt", "le", "lt"})


def equal_answers(
    space: Space, facts: Facts, sources: Iterable[Source], same: Callable[[Source, Source], bool]
) -> Facts:
    """Equations of the answers of comparisons in facts and sources whose operands are the same numbers.

    Args:
        space: sizes and indices.
        facts: what holds of a place.
        sources: what stands there.
        same: whether two floats are shown to be equal over the reals at this place.
    """
    names = {name for fact in facts for name in fact.polynomial.variables}
    names |= {name for source in sources for name in variables_in(source)}
    by_operation: dict[str, list[tuple[str, Term]]] = {}
    for name in sorted(reached(space, names)):
        source = space.sources.get(name)
        if isinstance(source, Term) and source.operation.partition("[")[0] in _COMPARISONS and _is_free(space, name):
            by_operation.setdefault(source.operation, []).append((name, source))
    known: dict[str, None] = {}
    equations: list[Facts] = []
    for alike in by_operation.values():
        for (name, first), (other, second) in itertools.combinations(alike, 2):
            if other not in known and all(map(same, first.operands, second.operands)):
                known[other] = None
                equations.append((equal(variable(name), variable(other)),))
    return tuple(fact for own in equations for fact in own)


def compared(space: Space, facts: Facts, extreme: Term) -> int | None:
    """Which operand the larger or smaller of two numbers is, where facts say how they compare; None where none does.

    Args:
        space: sizes and indices.
        facts: what holds of a place.
        extreme: the larger or the smaller of two floats.
    """
    is_max = extreme.operation.startswith("max")
    for fact in facts:
        names = fact.polynomial.variables
        source = space.sources.get(next(iter(names))) if len(names) == 1 else None
        if not isinstance(source, Term) or source.operation.partition("[")[0] not in _ORDERS:
            continue
        answers = [answer for answer in (0, 1) if _allows(fact, answer)]
        orders = [source.operands == extreme.operands, source.operands == extreme.operands[::-1]]
        if len(answers) == 1 and any(orders):
            # 0 where the first operand of the comparison is the larger one; where both are equal, either is right.
            larger = 1 - answers[0] if source.operation.startswith("g") else answers[0]
            chosen = larger if is_max else 1 - larger
            return chosen if orders[0] else 1 - chosen
    return None


def _allows(fact: Fact, answer: int) -> bool:
    (name,) = fact.polynomial.variables
    value = fact.polynomial.value({name: answer})
    return value >= 0 if fact.kind == "not_negative" else value == 0


def _is_free(space: Space, name: str) -> bool:
    """Whether an answer depends on no bound index, of which the other program has another name."""
    return all(depth_of(other) < 0 for other in reached(space, (name,)))
