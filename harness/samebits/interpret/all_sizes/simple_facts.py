"""Facts made simple in a box of indices and sizes: without those that always hold, and without common weights."""

from __future__ import annotations

import math
from collections.abc import Mapping

from samebits.interpret.all_sizes import bounds
from samebits.interpret.all_sizes.facts import Fact, Facts
from samebits.interpret.all_sizes.parts import weights
from samebits.interpret.all_sizes.polynomial import Polynomial


class SimpleFacts:
    """Simplifies facts; each is looked at once, as ranges are only added and what is shown of a box stays shown.

    Args:
        ranges: by index, its size.
        lowest: by symbol of a size, the smallest value that it takes.
    """

    def __init__(self, ranges: Mapping[str, Polynomial], lowest: Mapping[str, int]) -> None:
        self._ranges, self._lowest = ranges, lowest
        self._not_negative: dict[Polynomial, bool] = {}
        self._simpler: dict[Fact, Facts | None] = {}

    def look_again(self) -> None:
        """Forget what was not shown, since more is known of an index now."""
        self._not_negative.clear()
        self._simpler.clear()

    def simplified(self, facts: Facts) -> Facts | None:
        """Facts without those that always hold and without common weights; None where one never holds."""
        known: dict[Fact, None] = {}
        for fact in facts:
            simpler = self._of_one(fact)
            if simpler is None:
                return None
            known.update(dict.fromkeys(simpler))
        return tuple(known)

    def _of_one(self, fact: Fact) -> Facts | None:
        """What is left of one fact without common weights: nothing where it always holds; None where it never does."""
        if fact not in self._simpler:
            if self._never(fact):
                self._simpler[fact] = None
            elif self._always(fact):
                self._simpler[fact] = ()
            else:
                parts = self._lighter(fact)
                self._simpler[fact] = (fact,) if parts is None else self.simplified(tuple(parts))
        return self._simpler[fact]

    def _lighter(self, fact: Fact) -> list[Fact] | None:
        """A fact about digits of weight `w` and the rest below `w`: about the digits alone, or about both."""
        p, zero = fact.polynomial, fact.kind == "zero"
        for weight in weights(p, self._lowest, self._ranges):
            whole, rest = p.divided(weight)
            if not whole.variables or whole == p:
                continue
            for shift in (0, 1):
                low = rest + weight * shift
                # A multiple of the weight between -w and w is 0.
                least = low + weight - 1 if zero else low
                if self.is_not_negative(least) and self.is_not_negative(weight - 1 - low):
                    high = Fact(fact.kind, whole - shift)
                    return [high, Fact("zero", low)] if zero else [high]
        return None

    def is_not_negative(self, p: Polynomial) -> bool:
        """Whether a polynomial is shown to be at least 0 in the box of all sizes and indices."""
        if p not in self._not_negative:
            self._not_negative[p] = bounds.is_not_negative(p, self._ranges, self._lowest)
        return self._not_negative[p]

    def _never(self, fact: Fact) -> bool:
        p = fact.polynomial
        if self.is_not_negative(-p - 1):
            return True
        if fact.kind != "zero":
            return False
        rest = dict(p.terms).get((), 0)
        common = math.gcd(*(factor for monomial, factor in p.terms if monomial))
        return (common > 1 and rest % common != 0) or self.is_not_negative(p - 1)

    def _always(self, fact: Fact) -> bool:
        if fact.kind == "zero":
            return not fact.polynomial.terms
        return self.is_not_negative(fact.polynomial)
