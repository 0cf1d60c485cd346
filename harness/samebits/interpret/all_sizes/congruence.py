"""Unknown integers that are equal because they are the same element, or the same result, of equal indices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import Protocol

from samebits.interpret.all_sizes.facts import Element, Facts, Source, WholeResult, equal
from samebits.interpret.all_sizes.polynomial import Polynomial, variable


class KnownValues(Protocol):
    """Unknown integers, and what is shown of them."""

    @property
    def sources(self) -> Mapping[str, Source]:
        """By name, what an unknown integer is."""

    def current(self, p: Polynomial) -> Polynomial:
        """A polynomial with the digits of every index that has been cut."""

    def proves_equal(self, facts: Facts, first: Polynomial, second: Polynomial, nested: int) -> bool:
        """Whether two polynomials are shown to be equal where the facts hold."""


def equal_values(space: KnownValues, facts: Facts, names: Iterable[str], nested: int) -> Facts:
    """The equations between unknown integers that follow from facts about their indices.

    Args:
        space: sizes and indices.
        facts: what holds.
        names: of variables; those of unknown integers and of their digits count.
        nested: how deep unknown integers inside indices are compared.
    """
    wanted = set(names)
    values = [
        (name, source) for name, source in space.sources.items() if space.current(variable(name)).variables & wanted
    ]
    return tuple(
        equal(space.current(variable(first)), space.current(variable(second)))
        for (first, source), (second, another) in combinations(values, 2)
        if _same_at_equal_indices(space, facts, source, another, nested)
    )


def _same_at_equal_indices(space: KnownValues, facts: Facts, first: Source, second: Source, nested: int) -> bool:
    if isinstance(first, Element) and isinstance(second, Element):
        alike = first.name == second.name
    elif isinstance(first, WholeResult) and isinstance(second, WholeResult):
        alike = first.operation == second.operation and first.operands == second.operands
    else:
        return False
    return alike and all(
        space.proves_equal(facts, a, b, nested) for a, b in zip(first.index, second.index, strict=True)
    )
