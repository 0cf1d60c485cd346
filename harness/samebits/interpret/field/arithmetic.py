"""The arithmetic of the field domain: each primitive as an exact operation on residues, or as an unknown function."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from samebits.errors import NotCovered
from samebits.interpret import dot_general, literals, windows
from samebits.interpret.arrays import ARITHMETIC
from samebits.interpret.equation import Array, Step
from samebits.interpret.field import residues
from samebits.interpret.field.element import (
    CONSTANT,
    DegreeBounds,
    FieldElement,
    added,
    multiplied,
    reaching,
    scaled,
    shadows,
    spread,
    sum_reach,
    together,
)
from samebits.interpret.field.infinities import DOUBTFUL, FINITE, MEANT

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
        return field.settled(reaching(result, sum_reach(shadow, *all_of)), all_of)

    return rule


def sum_of(field: FieldBase, first: FieldElement, second: FieldElement) -> FieldElement:
    """The sum of two elements of one shape."""
    parts = each(field, residues.add, first, second)
    result = FieldElement(parts, first.shadow + second.shadow, together((first.degree, second.degree)))
    return field.settled(reaching(result, sum_reach(result.shadow, first, second)), [first, second])


def product(field: FieldBase, first: FieldElement, second: FieldElement) -> FieldElement:
    """The product of two elements of one shape."""
    parts = each(field, field.ring.multiply, first, second)
    result = FieldElement(parts, first.shadow * second.shadow, first.degree * second.degree)
    return field.settled(reaching(result, multiplied(first, second)), [first, second])


def reciprocal(field: FieldBase, step: Step, element: FieldElement) -> FieldElement:
    """One over an element.

    Raises:
        NotCovered: a residue is zero where the number is not, or the other way round.
    """
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
    own = field.element(values[1], step.inputs[1])
    below = spread(reciprocal(field, step, own), bottom.shape)
    result = product(field, top, below)
    result = replace(result, shadow=top.shadow / bottom.shadow)
    return field.settled(result, [top, bottom, below])


def negative(field: FieldBase, element: FieldElement) -> FieldElement:
    """An element with the other sign."""
    parts = each(field, residues.negate, element)
    return field.settled(replace(element, parts=parts, shadow=-element.shadow), [element])


def power(field: FieldBase, step: Step, element: FieldElement, exponent: int) -> FieldElement:
    """An element to a whole power."""
    if exponent == 0:
        return constant(field, 1.0, element)
    if exponent < 0:
        return reciprocal(field, step, power(field, step, element, -exponent))
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


def _one_minus_square(field: FieldBase, step: Step, value: Any) -> FieldElement:
    x = field.element(value, step.inputs[0])
    square = power(field, step, x, 2)
    return sum_of(field, constant(field, 1.0, x), negative(field, square))


# -- sums


def _reduce_sum(field: FieldBase, step: Step, value: Any) -> FieldElement:
    x = field.element(value, step.inputs[0])
    axes = tuple(axis + 1 for axis in step.params["axes"])
    parts = each(field, lambda part, p: residues.total(part, axes, p), x)
    result = reaching(FieldElement(parts, shadows(step, x), x.degree), added(x, total=lambda each: shadows(step, each)))
    return field.settled(result, [x], lambda mark: shadows(step, mark))


def _reduce_prod(field: FieldBase, step: Step, value: Any) -> FieldElement:
    x = field.element(value, step.inputs[0])
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
    def rule(field: FieldBase, step: Step, value: Any) -> FieldElement:
        x, axis, back = field.element(value, step.inputs[0]), step.params["axis"], step.params["reverse"]
        function = field.ring.running_product if times else residues.cumulative
        parts = each(field, lambda part, p: function(part, axis + 1, p, back), x)
        degree = x.degree.power(max(x.shape[axis], 1)) if times else x.degree
        result = FieldElement(parts, shadows(step, x), degree)
        reach = _least_sure(x, result.shadow, axis, True) if times else added(x, total=lambda each: shadows(step, each))
        return field.settled(reaching(result, reach), [x], lambda mark: ARITHMETIC["cumsum"](step, mark))

    return rule


def _dot_general(field: FieldBase, step: Step, left: Any, right: Any) -> FieldElement:
    x, y = (field.element(value, kind) for value, kind in zip((left, right), step.inputs, strict=True))

    def function(a: Array, b: Array, p: int) -> Array:
        a, b, finish = dot_general.matrix_form(step, a, b)
        return finish(field.ring.matmul(a, b, p))

    def through(first: Array, second: Array) -> Array:
        return shadows(step, first, np.ones(y.shape)) + shadows(step, np.ones(x.shape), second)

    def total(first: Array, second: Array) -> Array:
        squares = shadows(step, first, y.shadow**2)
        return squares if y.reach is None else np.maximum(squares, shadows(step, x.shadow**2, second))

    result = FieldElement(each(field, function, x, y), shadows(step, x, y), x.degree * y.degree)
    return field.settled(reaching(result, added(x, y, total=total)), [x, y], through)


def _scatter_add(field: FieldBase, step: Step, operand: Any, indices: Any, updates: Any) -> FieldElement:
    x, y = field.element(operand, step.inputs[0]), field.element(updates, step.inputs[2])
    targets, inside = windows.of_scatter(step, field.concrete(step, indices))

    def function(a: Array, b: Array, p: int) -> Array:
        flat = a.reshape(field.ring.rows, -1)
        return residues.add_at(flat, targets[inside], b[:, inside], p).reshape(a.shape)

    result = FieldElement(each(field, function, x, y), shadows(step, x, indices, y), together((x.degree, y.degree)))

    def total(first: Array, second: Array) -> Array:
        return shadows(step, first, indices, second)

    return field.settled(reaching(result, added(x, y, total=total)), [x, y], total)


FORMULAS: dict[str, Rule] = {
    "add": _ring(residues.add, lambda a, b: together((a, b))),
    "add_any": _ring(residues.add, lambda a, b: together((a, b))),
    "sub": _ring(residues.subtract, lambda a, b: together((a, b))),
    "mul": lambda field, step, *values: product(field, *operands(field, step, values)),
    "neg": _ring(residues.negate, lambda a: a),
    "div": _div,
    "one_minus_square": _one_minus_square,
    "square": lambda field, step, x: power(field, step, field.element(x, step.inputs[0]), 2),
    "integer_pow": lambda field, step, x: power(field, step, field.element(x, step.inputs[0]), step.params["y"]),
    "reduce_sum": _reduce_sum,
    "reduce_prod": _reduce_prod,
    "cumsum": _running(times=False),
    "cumprod": _running(times=True),
    "dot_general": _dot_general,
    "scatter-add": _scatter_add,
}
