"""Parts of polynomials: the weights of digits, and the index that an equation gives a value."""

from __future__ import annotations

from collections.abc import Container

from samebits.interpret.all_sizes.polynomial import Polynomial, product, variable


def weights(p: Polynomial, lowest: Container[str], ranges: Container[str]) -> list[Polynomial]:
    """The factors of indices in a polynomial, heaviest first."""
    factors: dict[Polynomial, None] = {}
    for monomial, factor in p.terms:
        sizes = product(variable(name) for name in monomial if name in lowest)
        if len(sizes.variables) or any(name in ranges for name in monomial):
            factors[sizes * abs(factor)] = None
            factors[sizes] = None
    weights = [weight for weight in factors if weight.constant != 1]
    return sorted(weights, key=lambda w: (-len(w.terms[0][0]), w.terms[0][0], -w.terms[0][1]))


def solution(p: Polynomial, lowest: Container[str]) -> tuple[str, Polynomial] | None:
    """An index, and what it is where a polynomial of it is zero; None where no index stands there alone.

    A size is one where it is a number.
    """
    for name in sorted(p.variables):
        parts = p.by(name)
        if parts is not None and parts[0].constant in (1, -1):
            value = parts[1] * -int(parts[0].constant or 0)
            if name not in lowest or value.constant is not None:
                return name, value
    return None
