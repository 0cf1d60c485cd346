"""The numbers of float constants: as they are, or the simple ones that they were rounded from."""

from __future__ import annotations

import math
from fractions import Fraction

from samebits.interpret.literals import SurdLiteral, standing
from samebits.sizes.formulas.formula import INFINITY, Formula, NoFormula, Summand, number
from samebits.sizes.places.facts import Number

STANDING = "float constants stand for the numbers whose roundings they are, as 0.9 in float32 does for 9/10"
"""What is assumed where formulas are not equal with the constants as they are."""


def stands_for(source: Number) -> SurdLiteral | None:
    """The other number that a float constant stands for (`literals`); None where it is itself."""
    if not source.dtype.startswith(("float", "bfloat")) or not math.isfinite(value := float(source.text)):
        return None
    literal = standing(value, source.dtype)
    return None if literal == SurdLiteral(Fraction(value)) else literal


def constant(source: Number) -> Formula:
    """A constant as the number that it is.

    Raises:
        NoFormula: it is NaN.
    """
    if source.text in ("inf", "-inf"):
        return Formula((Summand(Fraction(1 if source.text == "inf" else -1), powers=INFINITY),))
    try:
        return number(
            Fraction(float(source.text))
        )  # its value: the text is only as long as distinguishes it from its neighbours
    except ValueError:
        raise NoFormula(f"the constant {source.text}") from None
