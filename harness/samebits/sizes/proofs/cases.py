"""The families of sizes at which a comparison in traced code has another answer than it was traced with.

`if cp == 16` has one, where `cp` is 16; `if n % 3 == 0` has `n = 3*m`; `if n > 65536` has the sizes up to 65536, for
which the program of the other branch is traced.
"""

from __future__ import annotations

import math
from dataclasses import replace

from samebits.sizes.places.polynomial import Polynomial, of, variable
from samebits.sizes.proofs.comparisons import MOST_REMAINDERS, NotNegative, Remainders, SizeComparison, Zero
from samebits.sizes.proofs.family import Family

MOST_SIZES = 8
"""The most sizes that are looked at one by one."""


def where_otherwise(comparison: SizeComparison, family: Family) -> list[Family] | None:
    """The families that cover the sizes at which a comparison has another answer.

    Args:
        comparison: with the answer that the program was traced with.
        family: that was traced.

    Returns:
        None where no family is known to cover them; an empty list where there are no such sizes.
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
    """The whole family in parts, in each of which a comparison has one answer; None where it is not cut so."""
    match comparison.otherwise:
        case Remainders(of=polynomial, divisor=divisor) if divisor <= MOST_REMAINDERS:
            every = SizeComparison(Remainders(polynomial, divisor, tuple(range(divisor))), "", "")
            return where_otherwise(every, family)
        case NotNegative(of=polynomial) if len(polynomial.variables) == 1:
            # Of one symbol at least one part has a bound, which says more than the answer does.
            return [*_where_not_negative(polynomial, family), *_where_not_negative(-polynomial - 1, family)]
    return None


def _where_zero(difference: Polynomial, family: Family) -> list[Family] | None:
    """A symbol has the value at which a difference of sizes is 0; None where no symbol can be isolated."""
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
    """A symbol is bounded; else code gets this answer for all sizes, which is more than is needed."""
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
    """A symbol is so many times the divisor and something; None where no symbol decides on the remainder."""
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
