"""The float constants of a program, their source lines, and which constants are roundings of others.

A constant that was rounded to a coarser format is another number, and yet no other formula: pi is 3.140625 in bfloat16.
One stands for the other only where it is *its* rounding: the nearest number of the coarser format, to the last bit. Of
two constants in float32 or wider, a few units in the last place are the order in which they were computed.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from samebits.interpret import literals
from samebits.interpret.dead_code import live
from samebits.interpret.equation import Step
from samebits.interpret.literals import SurdLiteral
from samebits.numerics import floats

FORMATS = ("bfloat16", "float16", "float32")
"""Formats that a constant may have been rounded to before it was widened again."""

LITERAL, PRODUCT, COMPUTED = 2, 4, 32
"""Half units in the last place that a constant may be off, in formats of at least float32: the root of a rounded
number; a rounded product of two; a frequency theta^(-i/d), whose exponent is rounded before log(theta) <= 14 scales
it."""

_WRITTEN = 6  # decimal digits
_MANY = 16  # scalars that are tried as factors
_LIMIT = 1 << 16  # elements of an array of constants that are looked at


class SourceConstant(NamedTuple):
    """A float constant of a program.

    Args:
        value: its number; for one that the program computes, in float64.
        dtype: what it has in the program.
        place: `file:line` of its first use.
        computed: by the program, or one of an array of constants, which was computed elsewhere.
        table: one of an array of several.
        stands: the number that it stands for where that is known, as of what was written down.
    """

    value: float
    dtype: str
    place: str = ""
    computed: bool = False
    table: bool = False
    stands: SurdLiteral | None = None

    @property
    def number(self) -> SurdLiteral:
        """The number that it stands for."""
        return self.stands or literals.standing(self.value, "float64" if self.computed else self.dtype)

    def __str__(self) -> str:
        shown = np.float32(self.value) if self.dtype == "float32" and not self.computed else self.value
        exact = float(str(shown)) if float(np.float32(float(str(shown)))) == self.value else self.value
        return f"{exact!r} ({self.dtype})" + (f" at {self.place}" if self.place else "")


class RoundedConstant(NamedTuple):
    """A constant that stands for another number, in words."""

    constant: SourceConstant
    number: SurdLiteral
    text: str


def constants(closed: Any) -> dict[float, SourceConstant]:
    """The finite float constants of a closed jaxpr, each value with its first place."""
    by_value: dict[float, SourceConstant] = {}
    for values, dtype, place in _arrays(live(closed)):
        unique = np.unique(values)
        for value in unique.tolist():
            if math.isfinite(value):
                by_value.setdefault(value, SourceConstant(value, dtype, place, table=unique.size > 1))
    return by_value


def _arrays(closed: Any) -> Iterator[tuple[Any, str, str]]:
    """The values, dtype and place of each literal and each array of constants."""
    jaxpr = getattr(closed, "jaxpr", closed)
    values = dict(zip(jaxpr.constvars, getattr(closed, "consts", ()), strict=False))
    for eqn in jaxpr.eqns:
        for var in eqn.invars:
            value = var.val if hasattr(var, "val") else values.pop(var, None)
            dtype = getattr(var.aval, "dtype", None)
            if value is None or dtype is None or not floats.is_number(dtype):
                continue
            array = np.asarray(value)
            if floats.is_complex(np.dtype(dtype)):
                array = floats.parts(array.astype(dtype))
                dtype = array.dtype
            if not floats.is_float(dtype):
                continue
            if array.size <= _LIMIT:
                place = Step(eqn.primitive.name, eqn.params, (), (), eqn).place
                yield array.astype(dtype).astype(np.float64), np.dtype(dtype).name, place
        for param in eqn.params.values():
            for inner in param if isinstance(param, tuple | list) else (param,):
                if hasattr(getattr(inner, "jaxpr", inner), "eqns"):
                    yield from _arrays(inner)


def computed_alone(first: Any, second: Any) -> dict[float, SourceConstant]:
    """The float32 constants that one of two closed jaxprs alone has, and that were computed before they were rounded.

    1 - 0.9^7 is one, and what it was computed from is not known. A number that was written down is not; of a table all
    are but those of few digits, since some decimal is near to any number.
    """
    sides = constants(first), constants(second)
    return {
        value: constant
        for own, others in (sides, sides[::-1])
        for value, constant in own.items()
        if value not in others and constant.dtype == "float32" and _is_computed(constant)
    }


def narrow_alone(first: Any, second: Any) -> dict[float, float]:
    """The constants of a dtype narrower than float32 that one of two closed jaxprs alone has; half their last unit.

    Relative to the number. Those of few digits, such as 0.5, were not rounded.
    """
    sides = constants(first), constants(second)
    return {
        value: 2.0 ** -_digits(constant.dtype)
        for own, others in (sides, sides[::-1])
        for value, constant in own.items()
        if value not in others and _digits(constant.dtype) < 24 and _used(constant) >= _digits(constant.dtype) - 3
    }


def _is_computed(constant: SourceConstant) -> bool:
    return Fraction(constant.value).denominator > literals.SIMPLE if constant.table else not _is_written(constant)


def is_rounding(first: SourceConstant, second: SourceConstant, units: int | None = None) -> bool:
    """Whether of two constants one is the other rounded to its format, or both are within a few units of float32.

    Args:
        units: the half units by which they may differ in formats of at least float32.
    """
    coarse, fine = sorted((first, second), key=lambda constant: _digits(constant.dtype))
    if coarse.value == 0 or coarse.value * fine.value <= 0:
        return False  # what is rounded to nothing is gone: no rounding of a formula
    computed, digits = coarse.computed or fine.computed, _digits(coarse.dtype)
    apart = abs(coarse.value - fine.value) / abs(fine.value)
    if coarse.value.is_integer() or fine.value.is_integer():
        units = LITERAL  # a count, or a power of it: 12.00001 was not computed as 12 in another order
    off = (units or (COMPUTED if computed else LITERAL)) * 2.0**-digits
    if digits >= 24 and apart <= off and (computed or not (_is_written(first) or _is_written(second))):
        return True
    if digits < 24 and coarse.computed and apart <= 2.0**-digits:
        return True
    if _digits(fine.dtype) == digits:
        return _rounded_before(first, second) or _rounded_before(second, first)
    return _rounds(fine.value, coarse.dtype, coarse.value) or _rounded_before(coarse, fine)


def _is_written(constant: SourceConstant) -> bool:
    """Whether a number was written down as it is: a decimal of few digits, or a simple fraction or its root.

    Its neighbour one unit away was not computed in another order: it is another number.
    """
    for shown in (str(np.float32(constant.value)), repr(constant.value)):
        if len(shown.partition("e")[0].replace(".", "").replace("-", "").strip("0")) <= _WRITTEN:
            return True
    return literals.number(constant.value, constant.dtype) != SurdLiteral(Fraction(constant.value))


def _rounded_before(coarse: SourceConstant, fine: SourceConstant) -> bool:
    """Whether a constant was rounded to a format coarser than its own, most of whose digits it uses.

    A number of few digits, as 0.5, is the rounding of everything near it, and an integer is written down as it is.
    """
    if coarse.value.is_integer():
        return False
    used = _used(coarse)
    return any(
        used >= digits - 3 and digits < _digits(coarse.dtype) and _rounds(fine.value, name, coarse.value)
        for name, digits in ((name, _digits(name)) for name in FORMATS)
    )


def _used(constant: SourceConstant) -> int:
    """The binary digits from the first to the last that is not zero."""
    numerator = abs(Fraction(constant.value).numerator)
    return (numerator // (numerator & -numerator)).bit_length() if numerator else 0


def _rounds(value: float, dtype: str, to: float) -> bool:
    with np.errstate(over="ignore"):
        return float(np.array(value).astype(_kind(dtype))) == to


def _kind(dtype: str) -> np.dtype[Any]:
    return np.dtype(getattr(ml_dtypes, dtype, dtype))


def _digits(dtype: str) -> int:
    return floats.digits(_kind(dtype))


def roundings(
    first: Mapping[float, SourceConstant], second: Mapping[float, SourceConstant]
) -> dict[float, RoundedConstant]:
    """Which constants of either side stand for numbers of the other, or for products of numbers, by their values.

    Only constants that one side alone has stand for another number, and none is moved farther than its own rounding.
    """
    rounded: dict[float, RoundedConstant] = {}
    targets: set[float] = set()
    sides = (second, first), (first, second)
    for own, others in sides:
        alone = _Sorted(constant for value, constant in others.items() if value not in own)
        shared = _Sorted(constant for value, constant in others.items() if value in own)
        for value, constant in own.items():
            if value in others or value in targets:
                continue
            for values, sign in ((alone, 1), (shared, 1), (alone, -1), (shared, -1)):
                near = [others[other] for other in values.near(constant, sign * value) if other not in rounded]
                near = list(map(_negated, near)) if sign < 0 else near
                near = [other for other in near if is_rounding(constant, other)]
                if near:
                    nearest = min(near, key=lambda other: abs(other.value - constant.value))
                    rounded[value] = _rounding_of(constant, nearest)
                    targets.add(sign * nearest.value)
                    break
    factors = [
        constant for constant in {**first, **second}.values() if not constant.table and constant.value not in rounded
    ]
    unexplained = [
        constant
        for own, others in sides
        for constant in own.values()
        if constant.value not in others and constant.value not in rounded and constant.value not in targets
        if not constant.value.is_integer()
    ]
    # What was rounded when the program was traced is made of what the program computes, never the other way round: the
    # root of 2 in bfloat16 is 1.4142 until it is executed, and 0.70703125 is its rounded inverse.
    for constant in sorted(unexplained, key=_rounded_first) if len(factors) <= _MANY else ():
        product = _rounded_product(constant, factors)
        if product is not None:
            rounded[constant.value] = product
            factors = [other for other in factors if other.value != constant.value]
    return rounded


def _negated(constant: SourceConstant) -> SourceConstant:
    """A constant of the other sign: of -2/sqrt(pi) in bfloat16, 2/sqrt(pi) in float32 is what it was rounded from."""
    number = constant.number
    return constant._replace(value=-constant.value, stands=SurdLiteral(-number.rational, number.radicand))


def _rounded_first(constant: SourceConstant) -> tuple[bool, int, int]:
    """Literals of a short format first, of these what uses all of its digits; what is computed comes last."""
    digits = _digits(constant.dtype)
    return constant.computed, digits, digits - _used(constant)


def _rounding_of(constant: SourceConstant, other: SourceConstant) -> RoundedConstant:
    """A constant as another; the text names the coarser of them first."""
    coarse, fine = (other, constant) if _digits(other.dtype) < _digits(constant.dtype) else (constant, other)
    return RoundedConstant(constant, other.number, f"rounding of a constant: {coarse} for {fine}")


class _Sorted:
    """The values of constants in order; those with all digits of float32 apart, whose neighbours are near."""

    def __init__(self, among: Iterable[SourceConstant]) -> None:
        short, full = list[float](), list[float]()
        for constant in among:
            (short if _is_short(constant) else full).append(constant.value)
        self._short, self._full = sorted(short), sorted(full)

    def near(self, constant: SourceConstant, value: float) -> Sequence[float]:
        """Return those that a constant of this value may be a rounding of, or that may be one of it."""
        width = _SHORTEST if _is_short(constant) else _FULL
        return (*_near(self._short, value, _SHORTEST), *_near(self._full, value, width))


_SHORT = 11
"""The binary digits of the longest format that is shorter than float32."""

_SHORTEST, _FULL = 0.25, 2 * COMPUTED * 2.0**-24
"""How far a rounding is at most, relative to the number: to the shortest format, and between numbers of float32."""


def _is_short(constant: SourceConstant) -> bool:
    """Return whether a number may have been rounded to a format shorter than float32."""
    return _digits(constant.dtype) < 24 or _used(constant) <= _SHORT


def _near(values: Sequence[float], value: float, width: float) -> Sequence[float]:
    low, high = sorted((value * (1 - width), value * (1 + width)))
    return values[bisect.bisect_left(values, low) : bisect.bisect_right(values, high)]


def _rounded_product(constant: SourceConstant, factors: Sequence[SourceConstant]) -> RoundedConstant | None:
    """A constant as a product or quotient of others, or of one and a small integer, computed before it was rounded."""
    best: tuple[float, RoundedConstant] | None = None
    small = [SourceConstant(float(n), "float64") for n in (1, 2, 3, 4)]  # one, for the inverse of the other
    for first in factors:
        for second in (*factors, *small):
            for by, number in () if constant in (first, second) else _combined(first, second):
                product = SourceConstant(float(number), "float64")
                apart = abs(product.value / constant.value - 1) if constant.value else math.inf
                if not 0 < apart < 0.25 or (best is not None and apart >= best[0]):
                    continue
                if is_rounding(constant, product, PRODUCT) or apart <= _of_short(constant, first, second):
                    text = by.format(repr(first.value), repr(second.value))
                    place = f" at {first.place}" if first.place else ""
                    best = (
                        apart,
                        RoundedConstant(constant, number, f"rounding of a constant: {constant} for {text}{place}"),
                    )
    return None if best is None else best[1]


def _of_short(*constants: SourceConstant) -> float:
    """How far a literal may be from what two others make, where all three were rounded to a short format.

    They are roundings of three numbers of which one is made of the others if these can all be within half a unit. Zero
    where one of them was not rounded, or has so few digits that it need not have been.
    """
    if not all(not c.computed and _digits(c.dtype) < 24 and _used(c) >= _digits(c.dtype) - 3 for c in constants):
        return 0.0
    return float(sum(math.ldexp(0.5, -_digits(c.dtype)) / abs(math.frexp(c.value)[0]) for c in constants))


def _combined(first: SourceConstant, second: SourceConstant) -> Iterator[tuple[str, SurdLiteral]]:
    left, right = first.number, second.number
    if left.rational and right.rational:
        if second.value != 1:
            yield "{0} * {1}", _times(left, right)
            yield "{0} / {1}", _times(left, _inverse(right))
        elif left.radicand == 1 and 0 < left.rational < 1:
            yield "1 - {0}", SurdLiteral(1 - left.rational)
        yield "{1} / {0}", _times(_inverse(left), right)


def _times(left: SurdLiteral, right: SurdLiteral) -> SurdLiteral:
    rooted = literals.root(Fraction(left.radicand * right.radicand))
    return SurdLiteral(left.rational * right.rational * rooted.rational, rooted.radicand)


def _inverse(number: SurdLiteral) -> SurdLiteral:
    return SurdLiteral(1 / (number.rational * number.radicand), number.radicand)
