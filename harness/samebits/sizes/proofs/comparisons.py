"""Comparisons of symbolic sizes in traced code: what they were answered, and for which sizes that is not so.

`if cp == 16` is false for a symbol and `if n > 1000` is true for a large one, so the traced program is that of the
other sizes or of large ones. What code compares is recorded while it is traced (`operators.py`); the sizes with
another answer are families of their own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from samebits.errors import NotCovered
from samebits.sizes.places.polynomial import Polynomial, dimension, is_not_negative, of, variable
from samebits.sizes.proofs.family import Family


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
    """Records a comparison of two sizes with one answer for all of them, which is wrong for some.

    Args:
        otherwise: where the traced program may be another one; None where that cannot be described, as where a size is
            the key of a dictionary.
        place, text: the line that compares them, and what was compared.
    """

    otherwise: Zero | NotNegative | Remainders | None
    place: str
    text: str


@dataclass(frozen=True, slots=True)
class Comparisons:
    """Collects the comparisons of one trace.

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
        """Answer `first >= second` with what holds of large sizes; None where nothing can be said."""
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
    """Return the difference of two sizes, and the divisions in it; None where it has other operations."""
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
    """Return the remainder at which a difference is 0; None where it is another question."""
    parts = difference.by("%1")
    if len(divisions) > 1 or divisions[0].name != "mod" or parts is None or parts[0].constant not in (1, -1):
        return None
    return None if parts[1].constant is None else -parts[1].constant * (parts[0].constant or 0)


def _whole(divisions: list[_Division]) -> Remainders | None:
    """Split all sizes by a remainder: in each part a quotient is a size, and a remainder is a number."""
    for division in divisions:
        if division.by <= MOST_REMAINDERS and not any(name.startswith("%") for name in division.of.variables):
            return Remainders(division.of, division.by, tuple(range(division.by)))
    return None


def _of_large(difference: Polynomial) -> bool:
    """Tell whether a polynomial is positive where all sizes are large and alike."""
    most = max(len(monomial) for monomial, _ in difference.terms)
    return sum(factor for monomial, factor in difference.terms if len(monomial) == most) > 0


# The families of sizes at which a comparison in traced code has another answer than it was traced with.
MOST_SIZES = 8
"""The most sizes that are looked at one by one."""


def where_otherwise(comparison: SizeComparison, family: Family) -> list[Family] | None:
    """Return the families that cover the sizes at which a comparison has another answer; none if there are none.

    None where no family is known to cover them.
    """
    match comparison.otherwise:
        case Zero(of=polynomial):
            return _where_zero(polynomial.primitive, family)
        case NotNegative(of=polynomial):
            return _where_not_negative(polynomial, family)
        case Remainders(of=polynomial, divisor=divisor, remainders=remainders):
            parts = [_where_remainder(polynomial, divisor, remainder, family) for remainder in remainders]
            return None if any(part is None for part in parts) else [own for part in parts if part for own in part]
    return None


def by_answer(comparison: SizeComparison, family: Family) -> list[Family] | None:
    """Cut the family into parts, in each of which a comparison has one answer; None where it is not cut so."""
    match comparison.otherwise:
        case Remainders(of=polynomial, divisor=divisor) if divisor <= MOST_REMAINDERS:
            every = SizeComparison(Remainders(polynomial, divisor, tuple(range(divisor))), "", "")
            return where_otherwise(every, family)
        case NotNegative(of=polynomial) if len(polynomial.variables) == 1:
            # Of one symbol at least one part has a bound, which says more than the answer does.
            return [*_where_not_negative(polynomial, family), *_where_not_negative(-polynomial - 1, family)]
    return None


def _where_zero(difference: Polynomial, family: Family) -> list[Family] | None:
    """Give a symbol the value at which a difference of sizes is 0; None where no symbol can be isolated."""
    free = family.free
    for name in sorted(difference.variables):
        parts = difference.by(name)
        if parts is None or parts[0].constant is None:
            continue
        value = (-parts[1]).quotient(of(parts[0].constant))
        if value is None:
            if parts[1].constant is not None:
                return []
            continue
        if value.constant is None:
            # The other symbol would have to be in the range of this one.
            others = value.terms
            if len(others) != 1 or others[0][1] != 1 or len(others[0][0]) != 1:
                continue
            if free[others[0][0][0]] < free[name]:
                continue
        elif value.constant < free[name]:
            return []
        return [family.where(name, value)]
    return None


def _where_not_negative(polynomial: Polynomial, family: Family) -> list[Family]:
    """Bound a symbol; else give code this answer for all sizes, which is more than is needed."""
    forced = [replace(family, answers={**family.answers, polynomial: True, -polynomial - 1: False})]
    names = sorted(polynomial.variables)
    parts = polynomial.by(names[0]) if len(names) == 1 else None
    if parts is None or parts[0].constant is None or parts[1].constant is None:
        return forced
    (name,), factor, rest = names, parts[0].constant, parts[1].constant
    low = family.free[name]
    if factor > 0:
        return [family.bounded(name, max(low, math.ceil(-rest / factor)))]
    high = rest // -factor
    if high - low >= MOST_SIZES:
        return forced
    return [family.where(name, of(number)) for number in range(low, high + 1)]


def _where_remainder(polynomial: Polynomial, divisor: int, remainder: int, family: Family) -> list[Family] | None:
    """Make a symbol so many times the divisor and something; None where no symbol decides on the remainder."""
    for name in sorted(polynomial.variables):
        parts = polynomial.by(name)
        if parts is None or parts[0].constant is None or math.gcd(parts[0].constant, divisor) != 1:
            continue
        rest = dict(parts[1].terms)
        if any(factor % divisor for monomial, factor in rest.items() if monomial):
            continue
        start = (remainder - rest.get((), 0)) * pow(parts[0].constant, -1, divisor) % divisor
        low = family.free[name]
        times = f"{name}_by_{divisor}"
        while times in family.symbols:
            times += "_"
        # A symbol is at least 1: what is below the divisor is a number.
        least = max(1, math.ceil((low - start) / divisor))
        families = [family.having(times, least).where(name, divisor * variable(times) + start)]
        return families + ([family.where(name, of(start))] if low <= start else [])
    return None
