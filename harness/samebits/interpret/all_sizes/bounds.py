"""Bounds of polynomials in a box: every index from 0 to below its size, every size at least its lowest value."""

from __future__ import annotations

from collections.abc import Mapping

from samebits.interpret.all_sizes.polynomial import Polynomial, of, variable


def is_not_negative(p: Polynomial, ranges: Mapping[str, Polynomial], lowest: Mapping[str, int]) -> bool:
    """Whether a polynomial is shown to be at least 0 wherever there is an index at all; False decides nothing.

    Args:
        p: of sizes and indices.
        ranges: by index, its size.
        lowest: by symbol of a size, the smallest value that it takes.
    """
    number = p.constant
    if number is not None:
        return number >= 0
    for name in sorted(p.variables & ranges.keys()):
        parts = p.by(name)
        if parts is None:
            return False
        factor, rest = parts
        if is_not_negative(factor, ranges, lowest):
            return is_not_negative(rest, ranges, lowest)
        if is_not_negative(-factor, ranges, lowest):
            return is_not_negative(rest + factor * (ranges[name] - 1), ranges, lowest)
        return False
    if not p.variables <= lowest.keys():
        return False
    # Counted from the lowest values, every symbol is at least 0: so is a sum without negative terms.
    shifted = p.substitute({name: variable(name) + of(lowest[name]) for name in p.variables})
    return all(factor > 0 for _, factor in shifted.terms)


def largest(p: Polynomial, ranges: Mapping[str, Polynomial], lowest: Mapping[str, int]) -> Polynomial:
    """An upper bound over all indices, as far as the signs of their factors are known."""
    for name in sorted(p.variables & ranges.keys()):
        parts = p.by(name)
        if parts is not None:
            factor, rest = parts
            if is_not_negative(factor, ranges, lowest):
                p = rest + factor * (ranges[name] - 1)
            elif is_not_negative(-factor, ranges, lowest):
                p = rest
    return p
