"""What holds of a place (facts), and what a program puts there (sources): the parts of piecewise index maps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from samebits.numerics.floats import is_float
from samebits.sizes.places.polynomial import Polynomial


@dataclass(frozen=True, slots=True)
class Fact:
    """A polynomial that is not negative, or that is zero."""

    kind: Literal["not_negative", "zero"]
    polynomial: Polynomial

    def __str__(self) -> str:
        return f"{self.polynomial} {'>=' if self.kind == 'not_negative' else '=='} 0"


Facts = tuple[Fact, ...]


def at_least(first: Polynomial | int, second: Polynomial | int) -> Fact:
    """Say that the first is at least the second."""
    return Fact("not_negative", first - second if isinstance(first, Polynomial) else first - _of(second))


def below(first: Polynomial | int, second: Polynomial | int) -> Fact:
    """Say that the first is below the second."""
    return at_least(second, first + 1)


def equal(first: Polynomial | int, second: Polynomial | int) -> Fact:
    """Say that both are the same number."""
    return Fact("zero", first - second if isinstance(first, Polynomial) else first - _of(second))


def _of(value: Polynomial | int) -> Polynomial:
    return Polynomial() + value


def opposite(fact: Fact) -> list[Fact]:
    """Return the facts of which one holds where a fact does not."""
    if fact.kind == "not_negative":
        return [below(fact.polynomial, 0)]
    return [at_least(fact.polynomial, 1), at_least(-fact.polynomial, 1)]


def complement(facts: Iterable[Fact]) -> list[Facts]:
    """Return where a conjunction does not hold, as disjoint conjunctions."""
    before: Facts = ()
    cases: list[Facts] = []
    for fact in facts:
        cases += [(*before, other) for other in opposite(fact)]
        before = (*before, fact)
    return cases


@dataclass(frozen=True, slots=True)
class Element:
    """An element of an input."""

    name: str
    index: tuple[Polynomial, ...]

    def __str__(self) -> str:
        return f"{self.name}[{', '.join(map(str, self.index))}]"


@dataclass(frozen=True, slots=True)
class Number:
    """A constant that is not an integer, by its bits."""

    dtype: str
    bits: bytes
    text: str

    @classmethod
    def of(cls, value: np.generic) -> Number:
        """Return a NumPy scalar."""
        text = str(float(value)) if is_float(value.dtype) else str(value)
        return cls(value.dtype.name, value.tobytes(), text)

    def __str__(self) -> str:
        return f"{self.dtype} {self.text}"


@dataclass(frozen=True, slots=True)
class Integer:
    """An integer or, as 0 and 1, a boolean."""

    value: Polynomial

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True, slots=True)
class Term:
    """What one operation computes of its operands: the same bits of the same bits."""

    operation: str
    operands: tuple[Source, ...]

    def __str__(self) -> str:
        return f"{self.operation}({', '.join(map(str, self.operands))})"


@dataclass(frozen=True, slots=True)
class Whole:
    """An operand as a whole: what stands at each of its places, named by bound indices.

    Args:
        index: the bound indices, one per axis.
        pieces: what stands there.
    """

    shape: tuple[Polynomial, ...]
    index: tuple[Polynomial, ...]
    pieces: tuple[MapPiece, ...]


@dataclass(frozen=True, slots=True)
class WholeResult:
    """A place of what one operation computes of whole arrays, such as a sum or a sort.

    Args:
        operation: the primitive with its parameters and the number of the output.
        below: of the place of an element along an axis, as of the largest, how many places there are.
    """

    operation: str
    index: tuple[Polynomial, ...]
    operands: tuple[Whole, ...]
    below: Polynomial | None = None

    def __str__(self) -> str:
        return f"{self.operation.partition('[')[0]}(...)[{', '.join(map(str, self.index))}]"


@dataclass(frozen=True, slots=True)
class Reduction:
    """A sum or a largest element over bound indices, each below its size.

    Args:
        kind: `sum`, `max` or `min`.
        bound: the names of the indices.
        pieces: what stands at their places; no two pieces share a place.
    """

    kind: str
    dtype: str
    bound: tuple[str, ...]
    pieces: tuple[MapPiece, ...]

    def __str__(self) -> str:
        cases = "; ".join(
            f"{piece.source}{' where ' if piece.facts else ''}{' and '.join(map(str, piece.facts))}"
            for piece in self.pieces
        )
        return f"{self.kind} over {', '.join(self.bound)} of ({cases})"


@dataclass(frozen=True, slots=True)
class Carried:
    """What a scan carries at a time, where that is not unrolled.

    Args:
        name: of the scan, in its space.
        number: which of the values that it carries.
        time: how many steps were taken.
        devices: by mesh axis, the place of the device, inside of `shard_map`.
    """

    name: str
    number: int
    time: Polynomial
    index: tuple[Polynomial, ...]
    devices: tuple[tuple[str, Polynomial], ...] = ()

    @property
    def place(self) -> tuple[Polynomial, ...]:
        """Return time, place and device."""
        return (self.time, *self.index, *(p for _, p in self.devices))

    def __str__(self) -> str:
        return f"{self.name}.{self.number} after {self.time} steps [{', '.join(map(str, self.index))}]"


Source = Element | Number | Integer | Term | WholeResult | Reduction | Carried


@dataclass(frozen=True, slots=True)
class MapPiece:
    """Where all facts hold, this is what stands there."""

    facts: Facts
    source: Source


Pieces = Sequence[MapPiece]
"""A piecewise map; each place is in exactly one piece."""


def only_where(facts: Facts, pieces: Iterable[MapPiece]) -> list[MapPiece]:
    """Return pieces that stand only where facts hold."""
    return [MapPiece((*facts, *piece.facts), piece.source) for piece in pieces]


def variables_in(source: Source) -> frozenset[str]:
    """Return the indices and sizes that a source is made of."""
    match source:
        case Integer(value=value):
            return value.variables
        case Element(index=index):
            return frozenset(name for p in index for name in p.variables)
        case Carried(place=place):
            return frozenset(name for p in place for name in p.variables)
        case Term(operands=operands):
            return frozenset(name for operand in operands for name in variables_in(operand))
        case WholeResult(index=index, operands=wholes):
            own = frozenset(name for p in index for name in p.variables)
            pieces = [piece for whole in wholes for piece in whole.pieces]
            known = (fact.polynomial.variables for piece in pieces for fact in piece.facts)
            return own.union(*known, *(variables_in(piece.source) for piece in pieces))
        case Reduction(bound=bound, pieces=pieces):
            known = (fact.polynomial.variables for piece in pieces for fact in piece.facts)
            inner = frozenset[str]().union(*known, *(variables_in(piece.source) for piece in pieces))
            return inner - set(bound)
    return frozenset()


def parts_of(source: Source) -> Iterator[Source]:
    """Yield a source and all that it is made of, each object once: they share their parts."""
    seen: set[int] = set()
    left: list[Source] = [source]
    while left:
        part = left.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        yield part
        match part:
            case Term(operands=operands):
                left += reversed(operands)
            case Reduction(pieces=pieces):
                left += [piece.source for piece in reversed(pieces)]
            case WholeResult(operands=wholes):
                left += [piece.source for whole in reversed(wholes) for piece in reversed(whole.pieces)]
