"""Comparisons and selections in the field domain: decided by the shadow; near ties raise `NearTie`, but of extremes.

Which element is the largest follows the numbers of the case. Where several different formulas are too close to say, as
bfloat16 numbers that are equal or values below a mask of -1e9, the maximum is an unknown function of the set of them:
the same for the same formulas in any order, and whatever it is, it cancels where a softmax subtracts it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from samebits.errors import NearTie, NotCovered
from samebits.interpret.data_movement import broadcast, by_index, chosen
from samebits.interpret.equation import Array, Step
from samebits.interpret.field import residues
from samebits.interpret.field.base import unknown_of
from samebits.interpret.field.element import TIE, FieldElement, reaching, shadows, spread, together

if TYPE_CHECKING:
    from samebits.interpret.field.base import FieldBase


Rule = Callable[..., Any]


def reduced(sign: int) -> Rule:
    """The largest (sign 1) or smallest (-1) element over the axes of a reduction."""

    def rule(field: FieldBase, step: Step, x: FieldElement) -> FieldElement:
        axes = tuple(step.params["axes"])
        if not x.shadow.size:
            raise NotCovered(f"{step} looks for the best of nothing")
        kept = [dim for dim in range(len(x.shape)) if dim not in axes]
        shape = (*(x.shape[dim] for dim in kept), math.prod(x.shape[axis] for axis in axes))
        index = np.arange(x.shadow.size).reshape(x.shape).transpose([*kept, *axes]).reshape(shape)
        rows = field.moved([x], by_index(index), step.output)
        return best_of(field, step, rows, sign)

    return rule


def of_two(field: FieldBase, step: Step, x: FieldElement, y: FieldElement, sign: int) -> FieldElement:
    """The larger or the smaller of two elements that broadcast, where they may be too close."""
    shape = np.broadcast_shapes(x.shape, y.shape)

    def beside(arrays: Sequence[Array], several: tuple[int, ...] = ()) -> Array:
        return np.stack([broadcast(array, shape, several) for array in arrays], -1)

    both = field.moved([x, y], beside, step.output)
    return best_of(field, step, both, sign)


def best_of(field: FieldBase, step: Step, rows: FieldElement, sign: int) -> FieldElement:
    """The largest or smallest along the last axis; NaN where one is."""
    field.decided(step, rows)
    place = np.argmax(sign * rows.shadow, -1)[..., None]  # the first NaN, if any

    def at_place(arrays: Sequence[Array], several: tuple[int, ...] = ()) -> Array:
        return np.take_along_axis(arrays[0], np.broadcast_to(place, (*several, *place.shape)), -1)[..., 0]

    best = field.moved([rows], at_place, step.output)
    equal = np.all(rows.parts[0] == best.parts[0][..., None], 0)
    with np.errstate(invalid="ignore"):
        gaps = np.abs(rows.shadow - best.shadow[..., None])
        near = gaps <= TIE * np.maximum(rows.size, best.size[..., None])
    near &= np.isfinite(rows.shadow)
    tied = np.any(near & ~equal, -1)
    if not tied.any():
        return best
    unknown = _of_set(field, rows, near | equal, best, "largest" if sign > 0 else "smallest")
    depth = min(len(best.parts), len(unknown.parts))
    parts = tuple(np.where(tied, unknown.parts[level], best.parts[level]) for level in range(depth))
    chosen = FieldElement(parts, best.shadow, together((best.degree, unknown.degree)))
    return replace(reaching(chosen, best.reach), degree=chosen.degree)


def _of_set(
    field: FieldBase, rows: FieldElement, among: NDArray[np.bool_], best: FieldElement, name: str
) -> FieldElement:
    """An unknown function of the set of elements of each row that are among the candidates."""
    p, part = field.primes[0], rows.parts[0]
    order = np.argsort(np.where(among, part[0], -1), -1, kind="stable")
    ordered = [np.ascontiguousarray(np.take_along_axis(row, order, -1)) for row in part]
    counted = np.take_along_axis(among, order, -1)
    again = np.all([row[..., 1:] == row[..., :-1] for row in ordered], 0) & counted[..., :-1]
    counted[..., 1:] &= ~again
    keys: list[Array] = []
    for salt in range(2):  # sums of digests, which no order changes; two of them are as long as an element
        digests = residues.digest("one of a set", ordered, p, salt)
        keys.append(residues.total(np.where(counted, digests, 0), digests.ndim - 1, p)[None])
    return field.unknown(f"the {name} of near ties", keys, best.shadow, rows.degree)


def _order(field: FieldBase, step: Step, x: FieldElement, y: FieldElement) -> Array:
    """-1, 0 or 1 per element, 2 where one is NaN; equal residues are equal numbers, and so are equal infinities."""
    shape = np.broadcast_shapes(x.shape, y.shape)
    x, y = spread(x, shape), spread(y, shape)
    field.decided(step, x, y)
    equal = np.all(x.parts[0] == y.parts[0], 0)
    a, b = x.shadow, y.shadow
    signed = np.zeros(shape, bool)  # a positive number beside zero; where the shadow is sure, it says the same
    for each, other in ((x, y), (y, x)) if x.is_above_zero or y.is_above_zero else ():
        signed |= each.positive & (other.shadow == 0) & field.ring.vanishes(other.parts[0]).all(0)
    field.refuse_ties(step, a, b, equal | signed, np.maximum(x.size, y.size))
    order = np.where(equal | (np.isinf(a) & (a == b)), 0, np.where(a < b, -1, 1))
    return np.where(np.isnan(a) | np.isnan(b), 2, order)


def _comparison(true_for: tuple[int, ...], *, nan: bool = False) -> Rule:
    return lambda field, step, x, y: np.isin(_order(field, step, x, y), (*true_for, 2) if nan else true_for)


def _chosen(field: FieldBase, step: Step, cases: list[Any], which: Array) -> FieldElement:
    """Per element one of several values of one shape, or scalars."""

    def by_case(arrays: Sequence[Array], several: tuple[int, ...] = ()) -> Array:
        return chosen(which, [broadcast(array, which.shape, several) for array in arrays])

    return field.moved(cases, by_case, step.output)


def _extreme(sign: int) -> Rule:
    def rule(field: FieldBase, step: Step, x: FieldElement, y: FieldElement) -> FieldElement:
        nan = np.isnan(y.shadow) & ~np.isnan(x.shadow)
        try:
            return _chosen(field, step, [x, y], ((sign * _order(field, step, x, y) < 0) | nan).astype(np.int64))
        except NearTie:
            return of_two(field, step, x, y, sign)

    return rule


def _clamp(field: FieldBase, step: Step, low: FieldElement, x: FieldElement, high: FieldElement) -> FieldElement:
    which = np.where(_order(field, step, x, low) == -1, 0, np.where(_order(field, step, x, high) == 1, 2, 1))
    return _chosen(field, step, [low, x, high], which)


def _sign_of(field: FieldBase, step: Step, x: FieldElement) -> Array:
    field.decided(step, x)
    zero = np.all(field.ring.vanishes(x.parts[0]), 0)
    # A number that is not zero as a formula, and too small to be distinguished from the noise of the float64 shadow.
    if np.any(~zero & (np.abs(x.shadow) <= np.maximum(TIE * x.size, 1e-300)) & np.isfinite(x.shadow)):
        raise NearTie(f"{step} asks for the sign of a number that vanishes at these inputs; draw other inputs")
    return np.where(zero, 0, np.sign(x.shadow))


def _sign(field: FieldBase, step: Step, x: FieldElement) -> FieldElement:
    return field.lift(_sign_of(field, step, x).astype(np.int64), step.output)


def _abs(field: FieldBase, step: Step, x: FieldElement) -> FieldElement:
    negative = _sign_of(field, step, x) < 0
    parts = tuple(
        np.where(negative, residues.negate(part, p), part) for part, p in zip(x.parts, field.primes, strict=False)
    )
    return field.settled(FieldElement(parts, np.abs(x.shadow), x.degree, x.reach), [x])


def _is_finite(field: FieldBase, step: Step, x: FieldElement) -> Array:
    field.decided(step, x)
    return np.isfinite(x.shadow)


def _convert(field: FieldBase, step: Step, value: Any) -> Any:
    """Between floats nothing changes; to integers by the shadow; to booleans by being zero as a formula."""
    if not step.inputs[0].is_float or step.output.is_float:
        formula = getattr(value, "element", None)
        return field.element(value, step.inputs[0]) if formula is None else formula
    return _sign_of(field, step, value) != 0 if step.output.dtype.kind == "b" else truncated(field, step, value)


# Rounding to integers in the field domain: floor, ceil, round and truncation are functions of their argument.
class TruncatedInteger(np.ndarray[Any, np.dtype[Any]]):
    """Integers that were made of floats, with the formula that they are; arithmetic on them drops it."""

    element: FieldElement | None = None


def integral(field: FieldBase, step: Step, x: FieldElement) -> FieldElement:
    """floor, ceil or round of a value.

    Raises:
        NearTie: a number is too close to a jump.
        NotCovered: a number is not finite, or too large to be rounded.
    """
    x = _placed(field, step, x, half=step.name == "round")
    if step.name == "round":
        method = step.params["rounding_method"].name.lower().replace("_", " ")
        result = unknown_of(field, f"round {method}", x, shadows(step, x), odd=True)
    else:
        result = _floor(field, x, np.full(x.shape, step.name == "ceil"))
    return _settled(field, x, result)


def truncated(field: FieldBase, step: Step, x: FieldElement) -> Array:
    """The integers that a cast makes of floats; they keep their formula as long as they are only cast."""
    x = _placed(field, step, x, half=False)
    field.decided(step, x)
    numbers = shadows(step, x).astype(step.output.dtype)
    if not np.array_equal(numbers, np.trunc(x.shadow)):  # beyond the range of the integers
        return numbers
    whole = numbers.view(TruncatedInteger)
    whole.element = _settled(field, x, _floor(field, x, x.shadow < 0))
    return whole


def whole_part(field: FieldBase, step: Step, x: FieldElement) -> FieldElement:
    """A number rounded towards zero, as a formula."""
    x = _placed(field, step, x, half=False)
    return _settled(field, x, _floor(field, x, x.shadow < 0))


def _floor(field: FieldBase, x: FieldElement, upwards: NDArray[np.bool_]) -> FieldElement:
    """The floor, or where asked for the ceiling, which is -floor(-x)."""
    flipped = tuple(
        np.where(upwards, residues.negate(part, p), part) for part, p in zip(x.parts, field.primes, strict=False)
    )
    turned = replace(x, parts=flipped, shadow=np.where(upwards, -x.shadow, x.shadow))
    result = unknown_of(field, "floor", turned, np.floor(turned.shadow))
    back = tuple(
        np.where(upwards, residues.negate(part, p), part) for part, p in zip(result.parts, field.primes, strict=False)
    )
    return replace(result, parts=back, shadow=np.where(upwards, -result.shadow, result.shadow))


def _settled(field: FieldBase, x: FieldElement, result: FieldElement) -> FieldElement:
    """The result, where the argument is an integer already or a constant as that integer."""
    depth = min(len(x.parts), len(result.parts))
    integers = result.shadow.astype(np.int64)
    constants = [field.everywhere(residues.from_integers(integers, p)) for p in field.primes[:depth]]
    known = _is_whole(field, x)
    constant = x.degree.largest == 0
    exact = np.full(x.shape, True) if constant else np.all(x.parts[0] == constants[0], 0)
    parts = [
        np.where(exact, constants[level], np.where(known, x.parts[level], result.parts[level]))
        for level in range(depth)
    ]
    field.whole.update(parts[0][0][~exact].tolist())
    degree = x.degree if bool(np.all(exact | known)) else result.degree
    return FieldElement(tuple(parts), result.shadow, degree)


def _placed(field: FieldBase, step: Step, x: FieldElement, *, half: bool) -> FieldElement:
    """The argument, with a shadow on the right side of each jump."""
    if np.any(np.abs(x.shadow) >= 2**53) or not np.all(np.isfinite(x.shadow)):
        raise NotCovered(f"{step} rounds to an integer a number that is too large for it")
    twice = np.round(2 * x.shadow)
    moved = x.shadow + 0.5 if half else x.shadow
    near = np.abs(moved - np.round(moved)) <= TIE * np.maximum(1, np.maximum(np.abs(moved), x.size))
    exact = field.everywhere(residues.from_integers(twice.astype(np.int64), field.primes[0]))
    exactly = np.all(residues.add(x.parts[0], x.parts[0], field.primes[0]) == exact, 0) | _is_whole(field, x)
    if np.any(near & ~exactly):
        raise NearTie(f"{step} rounds a number that is too close to a jump; draw other inputs")
    return replace(x, shadow=np.where(near & exactly, twice / 2, x.shadow))


def _is_whole(field: FieldBase, x: FieldElement) -> NDArray[np.bool_]:
    """Which elements are known to be integers."""
    return np.isin(x.parts[0][0], np.array(sorted(field.whole), np.int64))


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
    "reduce_precision": lambda field, step, x: x,
    "round": integral,
    "sign": _sign,
}
