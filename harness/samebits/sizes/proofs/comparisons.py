"""Comparisons of symbolic sizes in traced code: what they were answered, and for which sizes that is not so.

`if cp == 16` is false for a symbol and `if n > 1000` is true for a large one, so the traced program is that of the
other sizes or of large ones. What code compares is recorded while it is traced (`size_operators.py`); the sizes with
another answer are families of their own (`size_cases.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from samebits.errors import NotCovered
from samebits.sizes.places.dimensions import dimension
from samebits.sizes.places.polynomial import Polynomial, is_not_negative, variable


@dataclass(frozen=True, slots=True)
class Zero:
    """The sizes at which a polynomial is 0."""

    of: Polynomial


@dataclass(frozen=True, slots=True)
class NotNegative:
    """The sizes at which a polynomial is at least 0."""

    of: Polynomial


@dataclass(frozen=True, slots=True)
class Remainders:
    """The sizes at which a polynomial leaves one of these remainders."""

    of: Polynomial
    divisor: int
    remainders: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SizeComparison:
    """A comparison of two sizes with one answer for all of them, which is wrong for some.

    Args:
        otherwise: where the traced program may be another one; None where that cannot be described, as where a size is
            the key of a dictionary.
        place: the line that compares them.
        text: what was compared.
    """

    otherwise: Zero | NotNegative | Remainders | None
    place: str
    text: str


@dataclass(frozen=True, slots=True)
class Comparisons:
    """The comparisons of one trace.

    Args:
        lowest: by symbol, its smallest value.
        answers: by polynomial, whether code gets the answer that it is at least 0.
        seen: the comparisons with one answer for all sizes.
    """

    lowest: Mapping[str, int]
    answers: Mapping[Polynomial, bool] = field(default_factory=dict)
    seen: list[SizeComparison] = field(default_factory=list)

    def add(self, comparison: SizeComparison) -> None:
        """Note a comparison once."""
        if comparison not in self.seen:
            self.seen.append(comparison)

    def different(self, first: Any, second: Any, place: str) -> None:
        """Note that code got the answer that two sizes are different."""
        difference, divisions = _difference(first, second)
        otherwise: Zero | Remainders | None = None
        if difference is not None and not divisions:
            if is_not_negative(difference - 1, {}, self.lowest) or is_not_negative(-difference - 1, {}, self.lowest):
                return
            otherwise = Zero(difference)
        elif difference is not None:
            remainder = _remainder_of(difference, divisions)
            otherwise = _whole(divisions)
            if remainder is not None:
                otherwise = Remainders(divisions[0].of, divisions[0].by, (remainder,))
                if not 0 <= remainder < divisions[0].by:
                    return
        self.add(SizeComparison(otherwise, place, f"{first} and {second}"))

    def at_least(self, first: Any, second: Any, place: str) -> bool | None:
        """The answer that code gets to `first >= second`: what holds of large sizes; None where nothing can be said."""
        difference, divisions = _difference(first, second)
        if difference is None or (divisions and _whole(divisions) is None):
            return None
        if difference in self.answers:
            return self.answers[difference]
        answer = _of_large(difference)
        otherwise = _whole(divisions) if divisions else NotNegative(-difference - 1 if answer else difference)
        self.add(SizeComparison(otherwise, place, f"{first} and {second}"))
        return answer


@dataclass(frozen=True, slots=True)
class _Division:
    """A quotient or a remainder in a size, for which a variable stands."""

    name: str
    of: Polynomial
    by: int


MOST_REMAINDERS = 8
"""The largest divisor by whose remainders all sizes are split."""


def _difference(first: Any, second: Any) -> tuple[Polynomial | None, list[_Division]]:
    """The difference of two sizes, and the divisions in it; None where it has other operations."""
    divisions: list[_Division] = []

    def operation(name: str, values: Any) -> Polynomial:
        divisor = values[-1].constant
        if name not in ("mod", "floordiv") or not divisor or divisor < 0:
            raise NotCovered(f"a comparison with {name}")
        divisions.append(_Division(name, values[0], divisor))
        return variable(f"%{len(divisions)}")

    try:
        return dimension(first, operation) - dimension(second, operation), divisions
    except NotCovered:
        return None, []


def _remainder_of(difference: Polynomial, divisions: list[_Division]) -> int | None:
    """The remainder at which a difference is 0; None where it is another question."""
    parts = difference.by("%1")
    if len(divisions) > 1 or divisions[0].name != "mod" or parts is None or parts[0].constant not in (1, -1):
        return None
    return None if parts[1].constant is None else -parts[1].constant * (parts[0].constant or 0)


def _whole(divisions: list[_Division]) -> Remainders | None:
    """All sizes, split by a remainder: in each part a quotient is a size, and a remainder is a number."""
    for division in divisions:
        if division.by <= MOST_REMAINDERS and not any(name.startswith("%") for name in division.of.variables):
            return Remainders(division.of, division.by, tuple(range(division.by)))
    return None


def _of_large(difference: Polynomial) -> bool:
    """Whether a polynomial is positive where all sizes are large and alike."""
    most = max(len(monomial) for monomial, _ in difference.terms)
    return sum(factor for monomial, factor in difference.terms if len(monomial) == most) > 0
