"""The functions of the field domain: those made of exponentials and roots, and uninterpreted ones.

A function of which no law is known gives fresh elements, the same for the same arguments; values known exactly, and odd
and even functions, are written out.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from samebits.interpret import literals
from samebits.interpret.equation import Array, Step, Type
from samebits.interpret.field.arithmetic import Rule, constant, negative, operands, power, product, reciprocal, sum_of
from samebits.interpret.field.base import unknown_of
from samebits.interpret.field.element import (
    CONSTANT,
    DegreeBounds,
    FieldElement,
    reaching,
    rounded_off,
    scaled,
    sensitive,
    shadows,
    together,
)
from samebits.interpret.field.infinities import BEYOND, DOUBTFUL, FINITE, MEANT

if TYPE_CHECKING:
    from samebits.interpret.field.base import FieldBase


# Square roots in the field domain: their law, and which of the two roots of a square is meant.
CONFIRMED = 16
"""Random points at which a proof that rests on roots is shown; by accident both signs agree at all with 2^-16."""

_SMALL = 1 << 20  # constants beyond this are left as they are


def root(field: FieldBase, element: FieldElement) -> FieldElement:
    """The square root: of constants with squares taken out; in GF(p^2) with its law; else an unknown function."""
    shadow = np.sqrt(element.shadow)
    result = unknown_of(field, "sqrt", element, shadow, fixed=((0.0, 0.0), (1.0, 1.0)))
    if element.degree.largest == 0:
        result = _of_constants(field, element, result)
    elif field.ring.extended:
        exact, has_root, guessed = _signed(field, element)
        parts = (np.where(has_root, exact, result.parts[0]), *result.parts[1:])
        result = replace(result, parts=parts, degree=replace(result.degree, guessed=guessed))
    result = reaching(FieldElement(result.parts, shadow, result.degree), scaled(element, shadow))
    return field.settled(result, [element])


def _signed(field: FieldBase, element: FieldElement) -> tuple[Array, NDArray[np.bool_], bool]:
    """Roots modulo the first prime, signed as the numbers are; where there is one; whether a sign is a guess."""
    field.rooted = True
    rows = field.ring.repetitions
    roots, has_root = field.ring.root(element.parts[0])
    # A root in GF(p), or one of a number outside GF(p): the argument may be the square of a formula.
    inside = np.all((roots[rows:] == 0) | (element.parts[0][rows:] != 0), 0)
    square = has_root & inside & ~np.all(field.ring.vanishes(element.parts[0]), 0)
    if not square.any():
        return roots, has_root, False
    flat = roots.reshape(len(roots), -1).copy()
    chosen = np.flatnonzero(square.reshape(-1))
    flat[:, chosen], known = field.values.absolute(flat[:, chosen])
    field.unsigned += int(np.sum(~known))
    keep = has_root.reshape(-1).copy()
    if field.ring.repetitions >= CONFIRMED:
        keep[chosen[~known]] = False
    return flat.reshape(roots.shape), keep.reshape(has_root.shape), bool(np.any(~known & keep[chosen]))


def _of_constants(field: FieldBase, element: FieldElement, result: FieldElement) -> FieldElement:
    """Roots of simple fractions, with their squares taken out."""
    parts = list(result.parts)
    unique, places = np.unique(element.shadow, return_inverse=True)
    for number, value in enumerate(unique):
        fraction = Fraction(float(value)).limit_denominator(_SMALL) if np.isfinite(value) else Fraction(-1)
        if float(fraction) != value or not 0 < fraction.numerator <= _SMALL:
            continue
        own = field.constant(literals.SurdLiteral(fraction), field.primes[0])
        row = np.full((1,) * len(element.shape), own)
        matches = (places.reshape(element.shape) == number) & np.all(element.parts[0] == field.everywhere(row), 0)
        rooted = literals.root(fraction)
        for level, p in enumerate(field.primes):
            row = np.full((1,) * len(element.shape), field.constant(rooted, p))
            parts[level] = np.where(matches, field.everywhere(row), parts[level])
    return replace(result, parts=tuple(parts))


_SATURATING = frozenset({"erf", "erfc", "expm1", "logistic", "tanh"})
"""What comes so close to a whole number that float64 holds that number."""


# -- the exponential, and functions made of it


def exp(field: FieldBase, element: FieldElement) -> FieldElement:
    """The exponential: a base to the power x, in a field where powers repeat after as many as x is counted by.

    The exponential of a -inf that is meant is 0. One that vanishes in float64 at the numbers of the case is 0 where the
    domain counts underflow as zero, unless its argument is an infinity that only happens there.
    """
    shadow = np.exp(element.shadow)
    if len(element.parts) == 1:
        result = field.unknown("exp", [element.parts[0]], shadow, element.degree)
    else:
        count, largest = field.calls.get("exp with its law", (0, 0))
        field.calls["exp with its law"] = (count + shadow.size, max(largest, element.degree.largest))
        parts = tuple(field.ring.exponential(part, level) for level, part in enumerate(element.parts[1:]))
        if field.refilled:
            last = field.unknown("exp", [element.parts[0]], shadow, element.degree)
            parts = (*parts, last.parts[len(parts)])
        result = FieldElement(parts, shadow, DegreeBounds(1))
    nature = field.infinities.nature(element)
    gone = (shadow == 0) & (nature != DOUBTFUL)
    below = gone & (nature != MEANT)
    if below.any():
        field.underflows = max(field.underflows, float(np.max(element.shadow, where=below, initial=-np.inf)))
        gone = gone if field.vanishing else gone & ~below
    parts = tuple(np.where(gone, 0, part) for part in result.parts)
    result = FieldElement(parts, shadow, result.degree)
    result = reaching(result, None if element.reach is None else shadow * np.maximum(1, element.reach))
    return field.settled(result, [element], new=np.where(nature == FINITE, BEYOND, FINITE))


def _valued(step: Step, result: FieldElement, x: FieldElement) -> FieldElement:
    """What was written out in other functions, with the value that the function itself has."""
    shadow = shadows(step, x)
    reach = sensitive(step, shadow, x)
    if step.name in _SATURATING:
        reach = rounded_off(shadow, (x.shadow != 0) & (shadow == np.round(shadow)) & (shadow != 0), reach)
    return reaching(replace(result, shadow=shadow, reach=None), reach)


def _exp(field: FieldBase, step: Step, value: Any) -> FieldElement:
    return exp(field, field.element(value, step.inputs[0]))


def _exp2(field: FieldBase, step: Step, value: Any) -> FieldElement:
    x = field.element(value, step.inputs[0])
    result = exp(field, product(field, x, log_of_two(field, x)))
    return _valued(step, result, x)


def _unit(field: FieldBase, name: str, like: FieldElement, value: float) -> FieldElement:
    """A constant that is not a fraction: by its name, or by its value where constants are known by these."""
    if field.keeps_constants:
        return field.element(np.full(like.shape, value), Type(like.shape, np.dtype(np.float64)))
    nothing = np.zeros((field.ring.rows, *like.shape), np.int64)
    return field.unknown(name, [nothing], np.full(like.shape, value), CONSTANT)


def log_of_two(field: FieldBase, like: FieldElement) -> FieldElement:
    """The natural logarithm of two, in the shape of another element."""
    return _unit(field, "log 2", like, np.log(2.0))


def _logistic(field: FieldBase, step: Step, value: Any) -> FieldElement:
    """1 / (1 + exp(-x))."""
    x = field.element(value, step.inputs[0])
    if field.refilled:  # an exponential less that others are nested in
        return _valued(step, unknown_of(field, "logistic", x, shadows(step, x), fixed=((0.0, 0.5),)), x)
    below = sum_of(field, exp(field, negative(field, x)), constant(field, 1.0, x))
    result = reciprocal(field, step, below)
    return _valued(step, result, x)


def _tanh(field: FieldBase, step: Step, value: Any) -> FieldElement:
    """2 / (1 + exp(-2 x)) - 1."""
    x = field.element(value, step.inputs[0])
    twice = product(field, x, constant(field, -2.0, x))
    below = sum_of(field, exp(field, twice), constant(field, 1.0, x))
    result = product(field, reciprocal(field, step, below), constant(field, 2.0, x))
    result = sum_of(field, result, constant(field, -1.0, x))
    return _valued(step, result, x)


def _expm1(field: FieldBase, step: Step, value: Any) -> FieldElement:
    x = field.element(value, step.inputs[0])
    result = sum_of(field, exp(field, x), constant(field, -1.0, x))
    return _valued(step, result, x)


# -- functions without laws, and what is known of them all the same


def _function(name: str, *, odd: bool = False, even: bool = False, fixed: tuple[tuple[float, float], ...] = ()) -> Rule:
    """An unknown function.

    Args:
        name: of the function.
        odd, even: f(-x) = -f(x), or f(x).
        fixed: arguments at which its value is known exactly.
    """

    def rule(field: FieldBase, step: Step, value: Any) -> FieldElement:
        x = field.element(value, step.inputs[0])
        return _valued(step, unknown_of(field, name, x, shadows(step, x), odd=odd, even=even, fixed=fixed), x)

    return rule


def _sqrt(field: FieldBase, step: Step, value: Any) -> FieldElement:
    return root(field, field.element(value, step.inputs[0]))


def _rsqrt(field: FieldBase, step: Step, value: Any) -> FieldElement:
    return reciprocal(field, step, root(field, field.element(value, step.inputs[0])))


def _log1p(field: FieldBase, step: Step, value: Any) -> FieldElement:
    x = field.element(value, step.inputs[0])
    y = sum_of(field, x, constant(field, 1.0, x))
    return _valued(step, unknown_of(field, "log", y, shadows(step, x), fixed=((1.0, 0.0),)), x)


def _erfc(field: FieldBase, step: Step, value: Any) -> FieldElement:
    x = field.element(value, step.inputs[0])
    inner = unknown_of(field, "erf", x, 1 - shadows(step, x), odd=True, fixed=((0.0, 0.0),))
    result = sum_of(field, negative(field, inner), constant(field, 1.0, x))
    return _valued(step, result, x)


def _pow(field: FieldBase, step: Step, base: Any, exponent: Any) -> FieldElement:
    """A power: by multiplying for whole exponents, by roots for halves, else as an unknown function."""
    powers = np.unique(exponent.shadow if isinstance(exponent, FieldElement) else np.asarray(exponent, np.float64))
    x, y = operands(field, step, (base, exponent))
    if len(powers) == 1 and y.degree.largest == 0 and abs(powers[0]) <= 64:
        if powers[0] == int(powers[0]):
            return power(field, step, x, int(powers[0]))
        if 2 * powers[0] == int(2 * powers[0]):
            return power(field, step, root(field, x), int(2 * powers[0]))
    shadow = shadows(step, x, y)
    degree = together((x.degree, y.degree))
    result = reaching(field.unknown("pow", [x.parts[0], y.parts[0]], shadow, degree), sensitive(step, shadow, x, y))
    return field.settled(result, [x, y])


FUNCTIONS: dict[str, Rule] = {
    "pow": _pow,
    "exp": _exp,
    "exp2": _exp2,
    "expm1": _expm1,
    "logistic": _logistic,
    "tanh": _tanh,
    "sqrt": _sqrt,
    "rsqrt": _rsqrt,
    "log": _function("log", fixed=((1.0, 0.0),)),
    "log1p": _log1p,
    "erf": _function("erf", odd=True, fixed=((0.0, 0.0),)),
    "erfc": _erfc,
    "sin": _function("sin", odd=True, fixed=((0.0, 0.0),)),
    "cos": _function("cos", even=True, fixed=((0.0, 1.0),)),
    "tan": _function("tan", odd=True, fixed=((0.0, 0.0),)),
    "cbrt": _function("cbrt", odd=True, fixed=((0.0, 0.0), (1.0, 1.0))),
    "atan": _function("atan", odd=True, fixed=((0.0, 0.0),)),
    "asin": _function("asin", odd=True, fixed=((0.0, 0.0),)),
    "acos": _function("acos"),
    "acosh": _function("acosh", fixed=((1.0, 0.0),)),
    "asinh": _function("asinh", odd=True, fixed=((0.0, 0.0),)),
    "atanh": _function("atanh", odd=True, fixed=((0.0, 0.0),)),
    "bessel_i0e": _function("bessel_i0e", even=True, fixed=((0.0, 1.0),)),
    "bessel_i1e": _function("bessel_i1e", odd=True, fixed=((0.0, 0.0),)),
    "digamma": _function("digamma"),
    "erf_inv": _function("erf_inv", odd=True, fixed=((0.0, 0.0),)),
    "lgamma": _function("lgamma", fixed=((1.0, 0.0), (2.0, 0.0))),
    "sinh": _function("sinh", odd=True, fixed=((0.0, 0.0),)),
    "cosh": _function("cosh", even=True, fixed=((0.0, 1.0),)),
}
