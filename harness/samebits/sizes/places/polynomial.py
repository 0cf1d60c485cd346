"""Polynomials with integer coefficients over named variables: sizes, indices, and what programs compute of them."""

from __future__ import annotations

import ast
import functools
import math
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from samebits.errors import NotCovered

Monomial = tuple[str, ...]
"""Variables in alphabetical order, each as often as its power; the empty one is 1."""


@dataclass(frozen=True, slots=True)
class Polynomial:
    """A sum of monomials with coefficients, in normal form: two are the same function where they are equal.

    Args:
        terms: by rising monomial, its coefficient, never 0.
    """

    terms: tuple[tuple[Monomial, int], ...] = ()

    def __add__(self, other: Polynomial | int) -> Polynomial:
        added = of(other)
        if not added.terms:
            return self
        return _of((*self.terms, *added.terms)) if self.terms else added

    __radd__ = __add__

    def __neg__(self) -> Polynomial:
        return Polynomial(tuple((monomial, -factor) for monomial, factor in self.terms))

    def __sub__(self, other: Polynomial | int) -> Polynomial:
        taken = of(other)
        if not taken.terms:
            return self
        return _of((*self.terms, *((monomial, -factor) for monomial, factor in taken.terms)))

    def __rsub__(self, other: Polynomial | int) -> Polynomial:
        return of(other) - self

    def __mul__(self, other: Polynomial | int) -> Polynomial:
        factors = of(other)
        number = factors.constant
        if number is not None:
            return self if number == 1 else Polynomial(tuple((m, f * number) for m, f in self.terms) if number else ())
        return _of((tuple(sorted((*first, *second))), a * b) for first, a in self.terms for second, b in factors.terms)

    __rmul__ = __mul__

    @property
    def constant(self) -> int | None:
        """Return the number that it is; None where it has a variable."""
        if not self.terms:
            return 0
        return self.terms[0][1] if self.terms[0][0] == () else None

    @property
    def variables(self) -> frozenset[str]:
        """Return the names in it."""
        return frozenset(name for monomial, _ in self.terms for name in monomial)

    def by(self, variable: str) -> tuple[Polynomial, Polynomial] | None:
        """Return `(a, b)` with `a * variable + b`, the variable in neither; None where it stands in a higher power."""
        factor: list[tuple[Monomial, int]] = []
        rest: list[tuple[Monomial, int]] = []
        for monomial, number in self.terms:
            if variable not in monomial:
                rest.append((monomial, number))
                continue
            other = tuple(name for name in monomial if name != variable)
            if len(other) != len(monomial) - 1:
                return None
            factor.append((other, number))
        return _of(factor), Polynomial(tuple(rest))

    def zero_at(self, variable: str) -> Polynomial | None:
        """Return what a variable of factor 1 or -1 is where the polynomial is zero; None of any other."""
        parts = self.by(variable)
        sign = None if parts is None else parts[0].constant
        return parts[1] * -sign if parts is not None and sign in (1, -1) else None

    def substitute(self, values: Mapping[str, Polynomial]) -> Polynomial:
        """Put other polynomials in place of variables."""
        if self.variables.isdisjoint(values):
            return self
        total = Polynomial()
        for monomial, number in self.terms:
            product = of(number)
            for name in monomial:
                product = product * (values[name] if name in values else variable(name))
            total = total + product
        return total

    def value(self, numbers: Mapping[str, int]) -> int:
        """Return its value where every variable has one."""
        total = 0
        for monomial, number in self.terms:
            for name in monomial:
                number *= numbers[name]
            total += number
        return total

    def quotient(self, divisor: Polynomial) -> Polynomial | None:
        """Return what the divisor must be multiplied by; None where there is nothing with whole coefficients."""
        whole, rest = self.divided(divisor)
        return whole if not rest.terms else None

    @property
    def primitive(self) -> Polynomial:
        """Return the polynomial without the variables and the number that all its terms have in common."""
        if not self.terms:
            return self
        common = Counter(self.terms[0][0])
        for monomial, _ in self.terms:
            common &= Counter(monomial)
        divisor = Polynomial(((tuple(sorted(common.elements())), math.gcd(*(number for _, number in self.terms))),))
        return self.divided(divisor)[0]

    def divided(self, divisor: Polynomial) -> tuple[Polynomial, Polynomial]:
        """Return `(q, r)` with `self = q * divisor + r`, where no term of `r` holds the divisor's leading term."""
        if not divisor.terms:
            raise ZeroDivisionError("division of a polynomial by 0")
        lead, number = max(divisor.terms, key=_degree)
        whole, rest, done = Polynomial(), self, Polynomial()
        while rest.terms:
            monomial, factor = max(rest.terms, key=_degree)
            other = _without(monomial, lead)
            times = abs(factor) // abs(number) * (1 if (factor > 0) == (number > 0) else -1)
            if other is None or not times:
                term = Polynomial(((monomial, factor),))
                done, rest = done + term, rest - term
                continue
            part = Polynomial(((other, times),))
            left = rest - part * divisor
            kept = dict(left.terms).get(monomial, 0)
            term = Polynomial(((monomial, kept),)) if kept else Polynomial()
            whole, done, rest = whole + part, done + term, left - term
        return whole, done

    def __str__(self) -> str:
        if not self.terms:
            return "0"
        text = ""
        for monomial, number in sorted(self.terms, key=lambda term: (-len(term[0]), term[0])):
            product = "*".join(monomial)
            size = str(abs(number)) if not product else product if abs(number) == 1 else f"{abs(number)}*{product}"
            sign = ("-" if number < 0 else "") if not text else (" - " if number < 0 else " + ")
            text += sign + size
        return text


def variable(name: str) -> Polynomial:
    """Return the polynomial that is one variable."""
    return Polynomial((((name,), 1),))


def of(value: Polynomial | int) -> Polynomial:
    """Return a polynomial, or a number as one."""
    if isinstance(value, Polynomial):
        return value
    return Polynomial((((), int(value)),)) if value else Polynomial()


def product(factors: Iterable[Polynomial]) -> Polynomial:
    """Return the product; 1 of nothing."""
    total = of(1)
    for factor in factors:
        total = total * factor
    return total


def _of(terms: Iterable[tuple[Monomial, int]]) -> Polynomial:
    total: dict[Monomial, int] = {}
    for monomial, number in terms:
        total[monomial] = total.get(monomial, 0) + number
    kept = [term for term in total.items() if term[1]]
    if len(kept) > 1:
        # Longest first, so that a constant term is the last one.
        kept.sort(key=_degree, reverse=True)
    return Polynomial(tuple(kept))


def _degree(term: tuple[Monomial, int]) -> tuple[int, Monomial]:
    return len(term[0]), term[0]


def _without(monomial: Monomial, factor: Monomial) -> Monomial | None:
    """Return a monomial divided by another; None where it is not a multiple."""
    rest = list(monomial)
    for name in factor:
        if name not in rest:
            return None
        rest.remove(name)
    return tuple(rest)


def weights(p: Polynomial, lowest: Container[str], ranges: Container[str]) -> list[Polynomial]:
    """Return the factors of indices in a polynomial, heaviest first."""
    factors: dict[Polynomial, None] = {}
    for monomial, factor in p.terms:
        sizes = product(variable(name) for name in monomial if name in lowest)
        if len(sizes.variables) or any(name in ranges for name in monomial):
            factors[sizes * abs(factor)] = None
            factors[sizes] = None
    weights = [weight for weight in factors if weight.constant != 1]
    return sorted(weights, key=lambda w: (-len(w.terms[0][0]), w.terms[0][0], -w.terms[0][1]))


def solution(p: Polynomial, lowest: Container[str]) -> tuple[str, Polynomial] | None:
    """Return an index, and what it is where a polynomial is zero; None where no index stands there alone.

    A size is one where it is a number.
    """
    for name in sorted(p.variables):
        value = p.zero_at(name)
        if value is not None and (name not in lowest or value.constant is not None):
            return name, value
    return None


def is_not_negative(p: Polynomial, ranges: Mapping[str, Polynomial], lowest: Mapping[str, int]) -> bool:
    """Tell whether a polynomial is shown to be at least 0 wherever there is an index at all; False decides nothing.

    Args:
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
    """Return an upper bound over all indices, as far as the signs of their factors are known."""
    for name in sorted(p.variables & ranges.keys()):
        parts = p.by(name)
        if parts is not None:
            factor, rest = parts
            if is_not_negative(factor, ranges, lowest):
                p = rest + factor * (ranges[name] - 1)
            elif is_not_negative(-factor, ranges, lowest):
                p = rest
    return p


# The dimensions of jax's symbolic shapes as polynomials, read from how jax prints them.
Operation = Callable[[str, Sequence[Polynomial]], Polynomial]
"""What a call such as `floordiv(a, b)` or `max(a, b)` is, which depends on the bounds of the sizes."""


def dimension(value: Any, operation: Operation) -> Polynomial:
    """Return a dimension as a polynomial of the symbols in it; `operation` gives divisions, remainders and extremes.

    Raises:
        NotCovered: the printed form is not a known one.
    """
    if isinstance(value, Polynomial):
        return value
    if isinstance(value, int):
        return of(value)
    try:
        return _read(_parsed(str(value)), operation)
    except (SyntaxError, TypeError):
        raise NotCovered(f"the dimension '{value}' is not an expression of sums, products and divisions") from None


@functools.lru_cache(maxsize=4096)
def _parsed(text: str) -> ast.expr:
    """Parse the expression that jax prints, which it does for each equation anew."""
    return ast.parse(text.replace("^", "**"), mode="eval").body


def _read(node: ast.expr, operation: Operation) -> Polynomial:
    match node:
        case ast.Constant(value=int(number)):
            return of(number)
        case ast.Name(id=name):
            return variable(name)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_read(operand, operation)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _read(left, operation) + _read(right, operation)
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            return _read(left, operation) - _read(right, operation)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return _read(left, operation) * _read(right, operation)
        case ast.BinOp(left=left, op=ast.Pow(), right=ast.Constant(value=int(power))):
            base, total = _read(left, operation), of(1)
            for _ in range(power):
                total = total * base
            return total
        case ast.Call(func=ast.Name(id=name), args=args):
            return operation(name, [_read(arg, operation) for arg in args])
    raise TypeError(ast.dump(node))
