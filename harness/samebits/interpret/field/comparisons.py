"""Comparisons and selections in the field domain: decided by the shadow; near ties raise `NearTie`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from samebits.errors import NearTie, NotCovered
from samebits.interpret.equation import Array, Step
from samebits.interpret.field import residues
from samebits.interpret.field.element import TIE, FieldElement, shadows, spread
from samebits.interpret.field.extremes import of_two, reduced
from samebits.interpret.field.integer_rounding import integral, truncated

if TYPE_CHECKING:
    from samebits.interpret.field.base import FieldBase

Rule = Callable[..., Any]


def _order(field: FieldBase, step: Step, first: Any, second: Any) -> Array:
    """-1, 0 or 1 per element, 2 where one is NaN; equal residues are equal numbers, and so are equal infinities."""
    kind = step.inputs[0]
    x, y = field.element(first, kind), field.element(second, kind)
    shape = np.broadcast_shapes(x.shape, y.shape)
    x, y = spread(x, shape), spread(y, shape)
    field.decided(step, x, y)
    equal = np.all(x.parts[0] == y.parts[0], 0)
    a, b = x.shadow, y.shadow
    field.refuse_ties(step, a, b, equal, np.maximum(x.size, y.size))
    order = np.where(equal | (np.isinf(a) & (a == b)), 0, np.where(a < b, -1, 1))
    return np.where(np.isnan(a) | np.isnan(b), 2, order)


def _comparison(true_for: tuple[int, ...], *, nan: bool = False) -> Rule:
    def rule(field: FieldBase, step: Step, first: Any, second: Any) -> Array:
        order = _order(field, step, first, second)
        return np.isin(order, (*true_for, 2) if nan else true_for)

    return rule


def _chosen(field: FieldBase, step: Step, cases: list[Any], which: Array) -> FieldElement:
    """Per element one of several values of one shape, or scalars."""
    kind, shape = step.output, which.shape
    ids, offset = [], 0
    for value in cases:
        ids.append(offset + np.broadcast_to(np.arange(value.shadow.size).reshape(value.shape), shape))
        offset += value.shadow.size
    return field.take(cases, np.choose(which, ids), kind)


def _extreme(sign: int) -> Rule:
    def rule(field: FieldBase, step: Step, first: Any, second: Any) -> FieldElement:
        x, y = (field.element(v, kind) for v, kind in zip((first, second), step.inputs, strict=True))
        if np.isnan(x.shadow).any() or np.isnan(y.shadow).any():
            raise NotCovered(f"{step} chooses from numbers of which one is NaN")
        try:
            return _chosen(field, step, [x, y], (sign * _order(field, step, x, y) < 0).astype(np.int64))
        except NearTie:
            return of_two(field, step, x, y, sign)

    return rule


def _clamp(field: FieldBase, step: Step, low: Any, x: Any, high: Any) -> FieldElement:
    low, x, high = (field.element(v, kind) for v, kind in zip((low, x, high), step.inputs, strict=True))
    which = np.where(_order(field, step, x, low) == -1, 0, np.where(_order(field, step, x, high) == 1, 2, 1))
    return _chosen(field, step, [low, x, high], which)


def _sign_of(field: FieldBase, step: Step, x: FieldElement) -> Array:
    field.decided(step, x)
    zero = np.all(field.ring.vanishes(x.parts[0]), 0)
    # A number that is not zero as a formula, and too small to be distinguished from the noise of the float64 shadow.
    if np.any(~zero & (np.abs(x.shadow) <= np.maximum(TIE * x.size, 1e-300)) & np.isfinite(x.shadow)):
        raise NearTie(f"{step} asks for the sign of a number that vanishes at these inputs; draw other inputs")
    return np.where(zero, 0, np.sign(x.shadow))


def _sign(field: FieldBase, step: Step, value: Any) -> FieldElement:
    return field.lift(_sign_of(field, step, field.element(value, step.inputs[0])).astype(np.int64), step.output)


def _abs(field: FieldBase, step: Step, value: Any) -> FieldElement:
    x = field.element(value, step.inputs[0])
    negative = _sign_of(field, step, x) < 0
    parts = tuple(
        np.where(negative, residues.negate(part, p), part) for part, p in zip(x.parts, field.primes, strict=False)
    )
    return field.settled(FieldElement(parts, np.abs(x.shadow), x.degree, x.reach), [x])


def _is_finite(field: FieldBase, step: Step, value: Any) -> Array:
    x = field.element(value, step.inputs[0])
    field.decided(step, x)
    return np.isfinite(x.shadow)


def _convert(field: FieldBase, step: Step, value: Any) -> Any:
    """Between floats nothing changes; to integers by the shadow; to booleans by being zero as a formula."""
    if not step.inputs[0].is_float or step.output.is_float:
        formula = getattr(value, "element", None)
        return field.element(value, step.inputs[0]) if formula is None else formula
    x = field.element(value, step.inputs[0])
    if step.output.dtype.kind == "b":
        return _sign_of(field, step, x) != 0
    return truncated(field, step, x)


CHOICES: dict[str, Rule] = {
    "abs": _abs,
    "ceil": integral,
    "clamp": _clamp,
    "convert_element_type": _convert,
    "eq": _comparison((0,)),
    "floor": integral,
    "ge": _comparison((0, 1)),
    "gt": _comparison((1,)),
    "iota": lambda field, step: field.lift(shadows(step), step.output),
    "is_finite": _is_finite,
    "le": _comparison((-1, 0)),
    "lt": _comparison((-1,)),
    "max": _extreme(1),
    "min": _extreme(-1),
    "ne": _comparison((-1, 1), nan=True),
    "reduce_max": reduced(1),
    "reduce_min": reduced(-1),
    "reduce_precision": lambda field, step, value: field.element(value, step.inputs[0]),
    "round": integral,
    "sign": _sign,
}
