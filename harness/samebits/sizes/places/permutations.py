"""Numbers of permutations: what a sort puts at a place, and at which place it puts a number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from samebits.sizes.places.facts import Source, Whole, WholeResult
from samebits.sizes.places.polynomial import Polynomial, variable


class NamedValues(Protocol):
    """Unknown integers by name."""

    def current(self, p: Polynomial) -> Polynomial:
        """A polynomial with the digits of every index that has been cut."""

    def value_of(self, source: Source, below: Polynomial | None = None) -> Polynomial:
        """The unknown integer that a source is."""

    def name_of(self, source: Source) -> str:
        """The variable of an unknown integer that has been asked for."""


@dataclass(frozen=True, slots=True)
class Permutation:
    """A place of a permutation of the numbers below the size of an axis, or of its inverse.

    Args:
        operation: what permutes.
        operands: the arrays that decide on the order; they are closed: of no index but their own.
        index: the place.
        axis: along which the places are permuted; each place of the other axes has a permutation of its own.
        size: of the axis.
        inverse: whether it is the place of a number, and not the number at a place.
    """

    operation: str
    operands: tuple[Whole, ...]
    index: tuple[Polynomial, ...]
    axis: int
    size: Polynomial
    inverse: bool = False

    @property
    def place(self) -> Polynomial:
        """The place along the axis."""
        return self.index[self.axis]

    def at(self, place: Polynomial) -> Permutation:
        """Another place along the axis."""
        return replace(self, index=(*self.index[: self.axis], place, *self.index[self.axis + 1 :]))

    def undone(self, number: Polynomial) -> Permutation:
        """The place of a number."""
        return replace(self.at(number), inverse=not self.inverse)

    def undoes(self, other: Permutation) -> bool:
        """Whether it is the inverse of another at that one's place of the other axes."""
        return replace(self.at(other.place), inverse=other.inverse) == other and self.inverse != other.inverse


class Permutations:
    """The numbers of permutations that stand in proofs, by the names of their variables."""

    def __init__(self) -> None:
        self._known: dict[str, Permutation] = {}

    def value(self, space: NamedValues, wanted: Permutation) -> Polynomial:
        """The number at a place: a variable, or what a permutation and its inverse leave as it was."""
        for name, other in self._known.items():
            if wanted.undoes(other) and space.current(variable(name)) == wanted.place:
                return other.place
        source = WholeResult(f"{'inverse ' if wanted.inverse else ''}{wanted.operation}", wanted.index, wanted.operands)
        value = space.value_of(source, wanted.size)
        self._known[space.name_of(source)] = wanted
        return value

    def at_value(self, space: NamedValues, value: Polynomial) -> Permutation | None:
        """The permutation whose number a value is."""
        for name, known in self._known.items():
            if space.current(variable(name)) == value:
                return known
        return None

    def hidden_in(
        self, space: NamedValues, names: Sequence[str], unknown: frozenset[str]
    ) -> tuple[str, Permutation] | None:
        """The one permutation of whose number some names are digits, and whose place alone is made of unknowns.

        Args:
            space: sizes and indices.
            names: of variables in which unknown indices are hidden.
            unknown: these indices.

        Returns:
            The name of its number, and the permutation; None where it is not one, or is not a number of a place.
        """
        for name, known in self._known.items():
            if not set(names) <= space.current(variable(name)).variables:
                continue
            rest = (p for axis, p in enumerate(known.index) if axis != known.axis)
            if any(p.variables & unknown for p in rest):
                return None
            return name, known
        return None
