"""The arithmetic of the field domain: each primitive as an exact operation on residues, or as an unknown function."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from samebits.errors import NotCovered
from samebits.interpret import dot_general, literals, windows
from samebits.interpret.arrays import ARITHMETIC
from samebits.interpret.equation import Array, Step, Type
from samebits.interpret.field import residues
from samebits.interpret.field.base import unknown_of
from samebits.interpret.field.element import (
    BEYOND,
    CONSTANT,
    DOUBTFUL,
    FINITE,
    MEANT,
    TIE,
    DegreeBounds,
    FieldElement,
    added,
    multiplied,
    reaching,
    rounded_off,
    scaled,
    sensitive,
    shadows,
    spread,
    sum_reach,
    summed,
    together,
)

if TYPE_CHECKING:
    from samebits.interpret.field.base import FieldBase


Rule = Callable[..., Any]


def each(field: FieldBase, function: Callable[..., Array], *elements: FieldElement) -> tuple[Array, ...]:
    """A function of residues, on as many primes as all of the elements still have."""
    depth = min(len(element.parts) for element in elements)
    return tuple(
        function(*(element.parts[level] for element in elements), field.primes[level]) for level in range(depth)
    )


def operands(field: FieldBase, step: Step, values: Any) -> list[FieldElement]:
    """The inputs as elements of the output's shape: jax lets a scalar literal stand for an array."""
    shape = np.broadcast_shapes(*(kind.shape for kind in step.inputs))
    return [spread(field.element(value, kind), shape) for value, kind in zip(values, step.inputs, strict=True)]


# -- exact arithmetic


def _ring(function: Callable[..., Array], degree: Callable[..., DegreeBounds]) -> Rule:
    def rule(field: FieldBase, step: Step, *values: Any) -> FieldElement:
        all_of = operands(field, step, values)
        shadow = shadows(step, *all_of)
        result = FieldElement(each(field, function, *all_of), shadow, degree(*(element.degree for element in all_of)))
        result = field.settled(reaching(result, sum_reach(shadow, *all_of)), all_of)
        if function is residues.add and any(element.is_above_zero for element in all_of):
            first, second = all_of
            both = _not_negative(field, first) & _not_negative(field, second)
            result = result.above_zero(both & (first.positive | second.positive))
        return _with_sum(field, result, step.name, *all_of)

    return rule


def _not_negative(field: FieldBase, element: FieldElement) -> NDArray[np.bool_]:
    """Which elements are positive, or zero as formulas."""
    return np.asarray(element.positive | ((element.shadow == 0) & field.ring.vanishes(element.parts[0]).all(0)))


def sum_of(field: FieldBase, first: FieldElement, second: FieldElement) -> FieldElement:
    """The sum of two elements of one shape."""
    parts = each(field, residues.add, first, second)
    result = FieldElement(parts, first.shadow + second.shadow, summed(first.degree, second.degree))
    result = field.settled(reaching(result, sum_reach(result.shadow, first, second)), [first, second])
    return _with_sum(field, result, "add", first, second)


def _with_sum(field: FieldBase, result: FieldElement, name: str, *elements: FieldElement) -> FieldElement:
    """A sum, a difference or a negative with the terms of its operands, if these are logarithms of one scale."""
    if all(element.terms is None for element in elements):
        return result
    if name in ("sub", "neg"):
        elements = (*elements[:-1], negative(field, elements[-1]))
    known = [element.terms for element in elements if element.terms is not None]
    rests = [element if element.terms is None else element.terms.rest for element in elements]
    rest = rests[0] if len(rests) == 1 else sum_of(field, *rests)
    scale, factor = known[0].scale, known[0].factor
    for terms in known[1:]:
        other = _to_a_sign(field, terms.factor, terms.scale, scale)
        if other is None:
            return result
        factor = product(field, factor, other)
    return result.with_terms(rest, scale, factor)


def _to_a_sign(field: FieldBase, element: FieldElement, sign: FieldElement, unit: FieldElement) -> FieldElement | None:
    """An element to the power sign / unit, where that is 1 or -1."""
    if np.array_equal(sign.parts[0], unit.parts[0]):
        return element
    zero = field.ring.vanishes(element.parts[0]).any() or not np.all(element.shadow)
    if zero or not np.array_equal(sign.parts[0], negative(field, unit).parts[0]):
        return None
    return reciprocal(field, Step("div", {}, (), (), None), element)


def factors(field: FieldBase, *elements: FieldElement) -> Sequence[FieldElement]:
    """What is multiplied: in a deep domain unknown functions of it, where it is a product itself and none is constant.

    Equal values stay equal, zero stays zero and the sign stays, so that products of equal factors are equal.
    """
    if not field.deep or any(element.degree.largest == 0 for element in elements):
        return elements
    return [element if element.degree.largest == 1 else _hidden(field, element) for element in elements]


def _hidden(field: FieldBase, element: FieldElement) -> FieldElement:
    latest = next((hidden for known, hidden in field.hidden if known is element), None)
    if latest is not None:
        return latest
    hidden = _unknown_but_for_twos(field, "factor", element, 1, ((0.0, 0.0),))
    finite = np.isfinite(element.shadow)
    parts = tuple(np.where(finite, *both) for both in zip(hidden.parts, element.parts, strict=True))
    result = replace(element, parts=parts, degree=hidden.degree)
    field.hidden.append((element, result))
    return result


def _unknown_but_for_twos(
    field: FieldBase, name: str, element: FieldElement, power: int, fixed: tuple[tuple[float, float], ...]
) -> FieldElement:
    """An unknown function f of an element, with f(-x) = -f(x) and f(2 x) = f(x) times a power of two.

    The power of two is that of the number of the case; numbers that are often met lie far from its borders.
    """
    with np.errstate(invalid="ignore"):
        known = np.isfinite(element.shadow) & (np.abs(element.shadow) > TIE * element.size)  # others are noise
    places = np.floor(np.log2(np.where(known, np.abs(element.shadow), 1.0) * _BORDER)).clip(-1000, 1000)
    scaled_down = _by_twos(field, element, -places)
    hidden = unknown_of(field, name, scaled_down, scaled_down.shadow**power, odd=True, fixed=fixed)
    return _by_twos(field, hidden, power * places)


_BORDER = 1.37
"""Times this, no simple fraction or root is close to a power of two."""


def _by_twos(field: FieldBase, element: FieldElement, places: Array) -> FieldElement:
    """Return an element times powers of two, which leave its degree as it is."""
    if not places.size:
        return element
    low, high = int(places.min()), int(places.max())
    numbers, index = np.ldexp(1.0, np.arange(low, high + 1)), (places - low).astype(np.intp)
    parts = tuple(
        field.ring.multiply(part, field.everywhere(residues.from_floats(numbers, p)[index]), p)
        for part, p in zip(element.parts, field.primes, strict=False)
    )
    return replace(element, parts=parts, shadow=element.shadow * numbers[index])


def product(field: FieldBase, first: FieldElement, second: FieldElement) -> FieldElement:
    """The product of two elements of one shape."""
    first, second = factors(field, first, second)
    parts = each(field, field.ring.multiply, first, second)
    result = FieldElement(parts, first.shadow * second.shadow, first.degree * second.degree)
    result = field.settled(reaching(result, multiplied(first, second)), [first, second])
    if first.is_above_zero or second.is_above_zero:
        result = result.above_zero(first.positive & second.positive)
    for element, other in ((first, second), (second, first)):
        if (terms := element.terms) is not None and (scale := _single(other)) is not None:
            return result.with_terms(
                product(field, terms.rest, other), product(field, terms.scale, scale), terms.factor
            )
    return result


def _single(element: FieldElement) -> FieldElement | None:
    """A constant without its shape, where it is the same everywhere."""
    if element.degree.largest or not element.shadow.size:
        return None
    flat = [part.reshape(len(part), -1) for part in element.parts]
    if any(np.any(part != part[:, :1]) for part in flat):
        return None
    return FieldElement(tuple(part[:, 0] for part in flat), element.shadow.reshape(-1)[0], element.degree)


def reciprocal(field: FieldBase, step: Step, element: FieldElement) -> FieldElement:
    """One over an element."""
    if field.deep and element.degree.largest and np.all(np.isfinite(element.shadow) & (element.shadow != 0)):
        result = _unknown_but_for_twos(field, "reciprocal", element, -1, ((1.0, 1.0),))
        return reaching(result, scaled(element, result.shadow))
    vanish = field.ring.vanishes(element.parts[0])
    zero = element.shadow == 0
    if np.any(vanish.any(0) & ~zero) or np.any(zero & ~vanish.all(0)):
        raise NotCovered(f"{step} divides by a number that vanishes at the inputs or at a random point, not at both")
    parts = each(field, field.ring.inverse, element)
    if element.degree.largest == 0:
        parts = tuple(_of_roots(field, element, part, p) for part, p in zip(parts, field.primes, strict=False))
    # What only happens to be infinite at these inputs is not a zero below a fraction.
    vast = np.isinf(element.shadow) & (field.infinities.nature(element) != DOUBTFUL)
    parts = tuple(np.where(vast, 0, part) for part in parts)
    degree = element.degree.divided(field.division(), element.shadow.size)
    result = FieldElement(parts, 1 / element.shadow, degree)
    result = reaching(result, scaled(element, result.shadow))
    return field.settled(result, [element], new=np.where(zero, MEANT, FINITE))


def _of_roots(field: FieldBase, element: FieldElement, part: Array, p: int) -> Array:
    """One over a root of a number is that root over the number: so in a field where this number has no root, too."""
    numbers = element.shadow[np.isfinite(element.shadow) & (element.shadow != 0)]
    for value in np.unique(numbers).tolist():
        square = Fraction(value * value).limit_denominator(literals.SIMPLE)
        rooted = literals.root(square)
        if rooted.radicand > 1 and math.isclose(float(rooted), abs(value), rel_tol=1e-14):
            sign = 1 if value > 0 else -1
            inverse = literals.SurdLiteral(sign / (rooted.rational * rooted.radicand), rooted.radicand)
            own = literals.SurdLiteral(sign * rooted.rational, rooted.radicand)
            matches = np.all(element.parts[0] == field.everywhere(_row(field, own, field.primes[0], element)), 0)
            part = np.where(matches, field.everywhere(_row(field, inverse, p, element)), part)
    return part


def _row(field: FieldBase, number: literals.SurdLiteral, p: int, like: FieldElement) -> Array:
    """The residue of a number, to broadcast against those of an element."""
    return np.full((1,) * len(like.shape), field.constant(number, p))


def _div(field: FieldBase, step: Step, *values: Any) -> FieldElement:
    top, bottom = operands(field, step, values)
    # Broadcast denominators are one denominator each, which keeps the degrees small.
    below = spread(reciprocal(field, step, values[1]), bottom.shape)
    result = replace(product(field, top, below), shadow=top.shadow / bottom.shadow)
    return field.settled(result, [top, bottom, below])


def negative(field: FieldBase, element: FieldElement) -> FieldElement:
    """An element with the other sign."""
    parts = each(field, residues.negate, element)
    result = field.settled(replace(element, parts=parts, shadow=-element.shadow), [element])
    if (terms := element.terms) is None:
        return result
    return result.with_terms(negative(field, terms.rest), negative(field, terms.scale), terms.factor)


def power(field: FieldBase, step: Step, element: FieldElement, exponent: int) -> FieldElement:
    """An element to a whole power."""
    if exponent == 0:
        return constant(field, 1.0, element)
    if exponent < 0:
        return reciprocal(field, step, power(field, step, element, -exponent))
    element = factors(field, element)[0] if exponent > 1 else element
    parts = each(field, lambda part, p: field.ring.power(part, exponent, p), element)
    if exponent > 2 and exponent % 2 == 0:
        field.held(power(field, step, element, exponent // 2))  # whose square it is
    result = FieldElement(parts, element.shadow**exponent, element.degree.power(exponent))
    return field.settled(reaching(result, scaled(element, result.shadow)), [element])


def constant(field: FieldBase, value: float, like: FieldElement) -> FieldElement:
    """A constant in the shape of another element."""
    array = np.full(like.shape, value, np.float64)
    parts = tuple(field.everywhere(residues.from_floats(array, p)) for p in field.primes)
    return FieldElement(parts, array, CONSTANT)


def _one_minus_square(field: FieldBase, step: Step, x: FieldElement) -> FieldElement:
    return sum_of(field, constant(field, 1.0, x), negative(field, power(field, step, x, 2)))


# -- sums


def _reduce_sum(field: FieldBase, step: Step, x: FieldElement) -> FieldElement:
    axes = tuple(axis + 1 for axis in step.params["axes"])
    parts = each(field, lambda part, p: residues.total(part, axes, p), x)
    result = reaching(
        FieldElement(parts, shadows(step, x), x.degree.mixed), added(x, total=lambda each: shadows(step, each))
    )
    result = field.settled(result, [x], lambda mark: shadows(step, mark))
    if x.is_above_zero:
        over = step.params["axes"]
        result = result.above_zero(_not_negative(field, x).all(over) & x.positive.any(over))
    return result


def _reduce_prod(field: FieldBase, step: Step, x: FieldElement) -> FieldElement:
    if not x.shadow.size:
        return field.lift(np.ones(step.output.shape, np.int64), step.output)
    for axis in sorted(step.params["axes"], reverse=True):
        last = (slice(None),) * (axis + 1) + (-1,)
        parts = each(field, lambda part, p, a=axis: field.ring.running_product(part, a + 1, p), x)
        length = x.shape[axis]
        shadow = np.prod(x.shadow, axis)
        result = FieldElement(tuple(part[last] for part in parts), shadow, x.degree.power(max(length, 1)))
        result = reaching(result, _least_sure(x, shadow, axis))
        x = field.settled(result, [x], lambda mark, a=axis: np.sum(mark, a))
    return x


def _least_sure(x: FieldElement, product: Array, axis: int, keep: bool = False) -> Array | None:
    """The reach of products along an axis: the relative one of the factor that is least sure."""
    if x.reach is None:
        return None
    relative = np.where(x.shadow == 0, 1, x.reach / np.abs(x.shadow))
    return np.asarray(np.abs(product) * np.max(relative, axis, keepdims=keep, initial=1))


def _running(times: bool) -> Rule:
    def rule(field: FieldBase, step: Step, x: FieldElement) -> FieldElement:
        axis, back = step.params["axis"], step.params["reverse"]
        function = field.ring.running_product if times else residues.cumulative
        parts = each(field, lambda part, p: function(part, axis + 1, p, back), x)
        degree = x.degree.power(max(x.shape[axis], 1)) if times else x.degree.mixed
        result = FieldElement(parts, shadows(step, x), degree)
        reach = _least_sure(x, result.shadow, axis, True) if times else added(x, total=lambda each: shadows(step, each))
        return field.settled(reaching(result, reach), [x], lambda mark: ARITHMETIC["cumsum"](step, mark))

    return rule


def _dot_general(field: FieldBase, step: Step, x: FieldElement, y: FieldElement) -> FieldElement:
    def function(a: Array, b: Array, p: int) -> Array:
        a, b, finish = dot_general.matrix_form(step, a, b)
        return finish(field.ring.matmul(a, b, p))

    def through(first: Array, second: Array) -> Array:
        return shadows(step, first, np.ones(y.shape)) + shadows(step, np.ones(x.shape), second)

    def total(first: Array, second: Array) -> Array:
        squares = shadows(step, first, y.shadow**2)
        return squares if y.reach is None else np.maximum(squares, shadows(step, x.shadow**2, second))

    x, y = factors(field, x, y)
    result = FieldElement(each(field, function, x, y), shadows(step, x, y), (x.degree * y.degree).mixed)
    return field.settled(reaching(result, added(x, y, total=total)), [x, y], through)


def _scatter_add(field: FieldBase, step: Step, x: FieldElement, indices: Any, y: FieldElement) -> FieldElement:
    targets, inside = windows.of_scatter(step, field.concrete(step, indices))

    def function(a: Array, b: Array, p: int) -> Array:
        flat = a.reshape(field.ring.rows, -1)
        return residues.add_at(flat, targets[inside], b[:, inside], p).reshape(a.shape)

    degree = together((x.degree, y.degree)).mixed
    result = FieldElement(each(field, function, x, y), shadows(step, x, indices, y), degree)

    def total(first: Array, second: Array) -> Array:
        return shadows(step, first, indices, second)

    return field.settled(reaching(result, added(x, y, total=total)), [x, y], total)


FORMULAS: dict[str, Rule] = {
    "add": _ring(residues.add, summed),
    "add_any": _ring(residues.add, summed),
    "sub": _ring(residues.subtract, summed),
    "mul": lambda field, step, *values: product(field, *operands(field, step, values)),
    "neg": _ring(residues.negate, lambda a: a),
    "div": _div,
    "one_minus_square": _one_minus_square,
    "square": lambda field, step, x: power(field, step, x, 2),
    "integer_pow": lambda field, step, x: power(field, step, x, step.params["y"]),
    "reduce_sum": _reduce_sum,
    "reduce_prod": _reduce_prod,
    "cumsum": _running(times=False),
    "cumprod": _running(times=True),
    "dot_general": _dot_general,
    "scatter-add": _scatter_add,
}


# The functions of the field domain: those made of exponentials and roots, and uninterpreted ones.
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
        field.calls["exp with its law"] = (count + shadow.size, max(largest, element.degree.of_few))
        field.nested |= field.refilled or len(element.parts) < len(field.primes)
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
    result = field.settled(result, [element], new=np.where(nature == FINITE, BEYOND, FINITE))
    result = _by_terms(field, element, result)
    return result if np.all(TIE * result.size < shadow) else result.above_zero(np.equal(nature, FINITE))


def _by_terms(field: FieldBase, element: FieldElement, result: FieldElement) -> FieldElement:
    """The exponential of rest + log(factor): that of the rest, times the factor."""
    if (terms := element.terms) is None or len(element.parts) == 1:
        return result
    factor = _to_a_sign(field, terms.factor, terms.scale, constant(field, 1.0, terms.scale))
    if factor is None:
        return result
    other = exp(field, terms.rest)
    with np.errstate(all="ignore"):
        numbers = [np.isfinite(each) & (each != 0) for each in (result.shadow, other.shadow, factor.shadow)]
    both = product(field, other, factor)
    parts = _where(np.logical_and.reduce(numbers), both.parts, result.parts)
    return replace(result, parts=parts, degree=together((both.degree, result.degree)))


def _valued(step: Step, result: FieldElement, x: FieldElement) -> FieldElement:
    """What was written out in other functions, with the value that the function itself has."""
    shadow = shadows(step, x)
    reach = sensitive(step, shadow, x)
    if step.name in _SATURATING:
        reach = rounded_off(shadow, (x.shadow != 0) & (shadow == np.round(shadow)) & (shadow != 0), reach)
    return reaching(replace(result, shadow=shadow, reach=None), reach)


def _exp2(field: FieldBase, step: Step, x: FieldElement) -> FieldElement:
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


def _logistic(field: FieldBase, step: Step, x: FieldElement) -> FieldElement:
    """1 / (1 + exp(-x))."""
    if field.refilled:  # an exponential less that others are nested in
        return _valued(step, unknown_of(field, "logistic", x, shadows(step, x), fixed=((0.0, 0.5),)), x)
    below = sum_of(field, exp(field, negative(field, x)), constant(field, 1.0, x))
    result = reciprocal(field, step, below)
    return _valued(step, result, x)


def _tanh(field: FieldBase, step: Step, x: FieldElement) -> FieldElement:
    """2 / (1 + exp(-2 x)) - 1."""
    twice = product(field, x, constant(field, -2.0, x))
    below = sum_of(field, exp(field, twice), constant(field, 1.0, x))
    result = product(field, reciprocal(field, step, below), constant(field, 2.0, x))
    result = sum_of(field, result, constant(field, -1.0, x))
    return _valued(step, result, x)


def _expm1(field: FieldBase, step: Step, x: FieldElement) -> FieldElement:
    result = sum_of(field, exp(field, x), constant(field, -1.0, x))
    return _valued(step, result, x)


# -- functions without laws, and what is known of them all the same


def _function(name: str, *, odd: bool = False, even: bool = False, fixed: tuple[tuple[float, float], ...] = ()) -> Rule:
    """An unknown function."""

    def rule(field: FieldBase, step: Step, x: FieldElement) -> FieldElement:
        return _valued(step, unknown_of(field, name, x, shadows(step, x), odd=odd, even=even, fixed=fixed), x)

    return rule


def _log(field: FieldBase, step: Step, x: FieldElement) -> FieldElement:
    y = sum_of(field, x, constant(field, 1.0, x)) if step.name == "log1p" else x
    result = _valued(step, unknown_of(field, "log", y, shadows(step, x), fixed=((1.0, 0.0),)), x)
    if not np.all(y.shadow > 0):
        return result
    return result.with_terms(constant(field, 0.0, y), constant(field, 1.0, FieldElement((), np.zeros(()), CONSTANT)), y)


def _erfc(field: FieldBase, step: Step, x: FieldElement) -> FieldElement:
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
    below = (y.shadow < 0) & (x.shadow > 0) & (y.degree.largest == 0)
    above = replace(
        y, parts=_where(below, negative(field, y).parts, y.parts), shadow=np.where(below, -y.shadow, y.shadow)
    )
    degree = together((x.degree, y.degree))
    with np.errstate(all="ignore"):
        numbers = np.where(below, 1 / shadow, shadow)
    result = field.unknown("pow", [x.parts[0], above.parts[0]], numbers, degree)
    if below.any():
        # One over the power of the opposite exponent, as a compiler writes `x / c**y`.
        unit = constant(field, 1.0, result)
        parts = _where(below, result.parts, unit.parts)
        inverse = reciprocal(field, step, replace(result, parts=parts, shadow=np.where(below, numbers, 1.0)))
        parts = _where(below, inverse.parts, result.parts)
        result = replace(result, parts=parts, shadow=shadow, degree=together((result.degree, inverse.degree)))
    zero = (y.shadow == 0) & (y.degree.largest == 0)
    result = replace(result, parts=_where(zero, constant(field, 1.0, result).parts, result.parts))
    return field.settled(reaching(result, sensitive(step, shadow, x, y)), [x, y])


def _where(condition: Array, parts: Sequence[Array], others: Sequence[Array]) -> tuple[Array, ...]:
    return tuple(np.where(condition, *both) for both in zip(parts, others, strict=False))  # as deep as both are


_ODD = ("asin", "asinh", "atan", "atanh", "bessel_i1e", "erf", "erf_inv", "sin", "sinh", "tan")
"""Functions with f(-x) = -f(x)."""
_EVEN = ("bessel_i0e", "cos", "cosh")
"""Functions with f(-x) = f(x) and f(0) = 1."""

FUNCTIONS: dict[str, Rule] = {
    **{name: _function(name, odd=True, fixed=((0.0, 0.0),)) for name in _ODD},
    **{name: _function(name, even=True, fixed=((0.0, 1.0),)) for name in _EVEN},
    "pow": _pow,
    "exp": lambda field, step, x: exp(field, x),
    "exp2": _exp2,
    "expm1": _expm1,
    "logistic": _logistic,
    "tanh": _tanh,
    "sqrt": lambda field, step, x: root(field, x),
    "rsqrt": lambda field, step, x: reciprocal(field, step, root(field, x)),
    "log": _log,
    "log1p": _log,
    "erfc": _erfc,
    "cbrt": _function("cbrt", odd=True, fixed=((0.0, 0.0), (1.0, 1.0))),
    "acos": _function("acos"),
    "acosh": _function("acosh", fixed=((1.0, 0.0),)),
    "digamma": _function("digamma"),
    "lgamma": _function("lgamma", fixed=((1.0, 0.0), (2.0, 0.0))),
}
