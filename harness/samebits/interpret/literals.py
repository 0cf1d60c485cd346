"""Which number a float literal of a program stands for: the simplest one that rounds to it, else itself.

`x / 3` and `x * 0.33333334` are one formula, and so are `x / sqrt(8.0)` and `x * 0.35355338`: a literal had to be
rounded to its dtype. So a literal that is the rounding of a simple fraction, or of the root of one, stands for that.
A literal of float32 or float64 that is the rounding of a short decimal stands for that, so that 0.999 is 1 - 0.001
where Python computed one of them. Two different literals never come to stand for one number unless both are its
rounding, each in its dtype.
"""

from __future__ import annotations

import functools
import math
from fractions import Fraction
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

SIMPLE = 256
"""Fractions whose numerator and denominator reach to here are simple; the roots are of such fractions."""


DECIMALS = {"float32": 6, "float64": 15}
"""Significant digits of decimals of which each rounds to a number of its own (`FLT_DIG` and `DBL_DIG` of C)."""

_TABLE = 1 << 12
_COMPUTED = 12
_NOISE = 2.0**-48  # 32 half units of float64, as `constants.COMPUTED`


class SurdLiteral(NamedTuple):
    """`rational * sqrt(radicand)`, with a radicand that no square divides (1: a rational number)."""

    rational: Fraction
    radicand: int = 1

    def __float__(self) -> float:
        if self.radicand == 1:
            return float(self.rational)
        return math.copysign(math.sqrt(self.rational**2 * self.radicand), self.rational)


@functools.lru_cache(maxsize=1 << 16)
def number(value: float, dtype: str) -> SurdLiteral:
    """The number that a finite literal of a float dtype stands for."""
    exact = Fraction(value)
    if exact.denominator <= SIMPLE or value == 0:
        return SurdLiteral(exact)
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    simple = exact.limit_denominator(SIMPLE)
    if abs(simple.numerator) <= SIMPLE and float(np.array(float(simple)).astype(kind)) == value:
        return SurdLiteral(simple)
    square = (exact * exact).limit_denominator(SIMPLE)
    if square and square.numerator <= SIMPLE:
        rooted = root(square)
        if float(np.array(float(rooted)).astype(kind)) == abs(value):
            return SurdLiteral(rooted.rational * (1 if value > 0 else -1), rooted.radicand)
    return SurdLiteral(_decimal(value, DECIMALS[dtype], kind) if dtype in DECIMALS else exact)


def standing(value: float, dtype: str) -> SurdLiteral:
    """The number that a constant of a program stands for, which was computed in float64 if its dtype cannot hold it.

    What was computed stands for a decimal within the noise: 1 - 0.9^2 is 0.18999999999999995 in float64.
    """
    with np.errstate(over="ignore"):
        if float(np.array(value).astype(np.dtype(getattr(ml_dtypes, dtype, dtype)))) == value and dtype != "float64":
            return number(value, dtype)
    simplest, exact = number(value, "float64"), Fraction(value)
    if simplest != SurdLiteral(exact):
        return simplest
    near = Fraction(f"{value:.{_COMPUTED - 1}e}")
    return SurdLiteral(near) if abs(near - exact) <= abs(exact) * Fraction(_NOISE) else simplest


def meant(array: Any) -> Any:
    """The float64 numbers that float constants stand for, so that 0.9 in float32 is 0.9.

    A table of many numbers is data, and is taken as it is.
    """
    array = np.asarray(array)
    wide: np.ndarray[Any, np.dtype[np.float64]] = array.astype(np.float64)
    if array.size > _TABLE or array.dtype == np.float64:
        return wide
    for place, value in np.ndenumerate(wide):
        if math.isfinite(value):
            wide[place] = float(number(float(value), array.dtype.name))
    return wide


def _decimal(value: float, digits: int, kind: np.dtype[Any]) -> Fraction:
    """The decimal of at most this many significant digits that rounds to a number, else the number itself."""
    shown = f"{value:.{digits - 1}e}"
    return Fraction(shown) if float(np.array(float(shown)).astype(kind)) == value else Fraction(value)


@functools.lru_cache(maxsize=1 << 16)
def root(square: Fraction) -> SurdLiteral:
    """The square root of a fraction that is not negative: sqrt(p / q) = sqrt(p q) / q, squares taken out."""
    inside, outside = square.numerator * square.denominator, Fraction(1, square.denominator)
    whole = math.isqrt(inside)
    if whole * whole == inside:
        return SurdLiteral(outside * whole)
    factor = 2
    while factor * factor <= inside and factor <= SIMPLE:
        while inside % (factor * factor) == 0:
            inside, outside = inside // (factor * factor), outside * factor
        factor += 1
    return SurdLiteral(outside, inside)
