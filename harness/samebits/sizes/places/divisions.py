"""Quotients and remainders by a size, as variables: one pair of them for whatever has the same remainder."""

from __future__ import annotations

from samebits.sizes.places.facts import Fact, equal
from samebits.sizes.places.polynomial import Polynomial, of, variable


class CutIndex(Exception):
    """An index has to be cut into two digits; the evaluation begins again with them.

    Args:
        name: the index.
        weight: the size of the low digit.
    """

    def __init__(self, name: str, weight: Polynomial) -> None:
        super().__init__(f"{name} by {weight}")
        self.name, self.weight = name, weight


class Divisions:
    """Holds the divisions whose results are variables; a remainder is below its divisor."""

    def __init__(self, ranges: dict[str, Polynomial]) -> None:
        self.definitions: dict[str, tuple[Fact, ...]] = {}
        self._ranges = ranges
        self._named: dict[tuple[Polynomial, Polynomial], tuple[Polynomial, Polynomial]] = {}
        self._remainders: dict[str, tuple[Polynomial, Polynomial, Polynomial]] = {}
        self.divided: dict[str, tuple[Polynomial, Polynomial, bool]] = {}

    def divide(self, p: Polynomial, divisor: Polynomial) -> tuple[Polynomial, Polynomial]:
        """Divide, rounded down, by a divisor that is at least 1: quotient and remainder."""
        whole, p = self.without_multiples(p, divisor)
        if p.terms and p.terms[0][1] < 0:
            # (-1 - x) // m is -1 - x // m, and its remainder is m - 1 - x % m.
            high, low = self._variables(-p - 1, divisor)
            return whole - 1 - high, divisor - 1 - low
        high, low = self._variables(p, divisor)
        return whole + high, low

    def without_multiples(self, p: Polynomial, divisor: Polynomial) -> tuple[Polynomial, Polynomial]:
        """Return `(q, r)` with `p = q * divisor + r`, where `r` has no remainder or multiple of this divisor."""
        total = of(0)
        while True:
            whole, p = p.divided(divisor)
            total = total + whole
            name = next((name for name in sorted(p.variables) if self._divided_by(name) == divisor), None)
            parts = None if name is None else p.by(name)
            if name is None or parts is None:
                return total, p
            divided, _, high = self._remainders[name]
            # factor * (x % m) is factor * x - factor * (x // m) * m.
            p, total = parts[1] + parts[0] * divided, total - parts[0] * high

    def _divided_by(self, remainder: str) -> Polynomial | None:
        known = self._remainders.get(remainder)
        return None if known is None else known[1]

    def _variables(self, p: Polynomial, divisor: Polynomial) -> tuple[Polynomial, Polynomial]:
        key = p, divisor
        if key not in self._named:
            high, low = f"({p})//({divisor})", f"({p})%({divisor})"
            self._ranges[low] = divisor
            definition = equal(p, divisor * variable(high) + variable(low))
            self.definitions[high] = self.definitions[low] = (definition,)
            self.divided[high], self.divided[low] = (p, divisor, False), (p, divisor, True)
            self._named[key] = variable(high), variable(low)
            self._remainders[low] = p, divisor, variable(high)
        return self._named[key]
