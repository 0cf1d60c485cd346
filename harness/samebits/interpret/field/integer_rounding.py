"""Rounding to integers in the field domain: floor, ceil, round and truncation are functions of their argument.

They are unknown functions, so that the floor of one formula is not that of another one, nor a constant. Known is what
holds for every argument: ceil(x) = -floor(-x), round(-x) = -round(x), truncation is one of floor and ceil, and what is
an integer stays as it is. An argument close to a jump raises `NearTie`: float64 cannot decide on which side it is.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from samebits.errors import NearTie, NotCovered
from samebits.interpret.equation import Array, Step
from samebits.interpret.field import residues
from samebits.interpret.field.base import unknown_of
from samebits.interpret.field.element import TIE, FieldElement, shadows

if TYPE_CHECKING:
    from samebits.interpret.field.base import FieldBase


class TruncatedInteger(np.ndarray[Any, np.dtype[Any]]):
    """Integers that were made of floats, with the formula that they are; arithmetic on them drops it."""

    element: FieldElement | None = None


def integral(field: FieldBase, step: Step, value: Any) -> FieldElement:
    """floor, ceil or round of a value.

    Raises:
        NearTie: a number is too close to a jump.
        NotCovered: a number is not finite, or too large to be rounded.
    """
    x = field.element(value, step.inputs[0])
    x = _placed(field, step, x, half=step.name == "round")
    if step.name == "round":
        method = step.params["rounding_method"].name.lower().replace("_", " ")
        result = unknown_of(field, f"round {method}", x, shadows(step, x), odd=True)
    else:
        result = _floor(field, x, np.full(x.shape, step.name == "ceil"))
    return _settled(field, x, result)


def truncated(field: FieldBase, step: Step, value: Any) -> Array:
    """The integers that a cast makes of floats; they keep their formula as long as they are only cast.

    Raises:
        NearTie, NotCovered: as `integral`.
    """
    x = field.element(value, step.inputs[0])
    x = _placed(field, step, x, half=False)
    field.decided(step, x)
    numbers = shadows(step, x).astype(step.output.dtype)
    if not np.array_equal(numbers, np.trunc(x.shadow)):  # beyond the range of the integers
        return numbers
    whole = numbers.view(TruncatedInteger)
    whole.element = _settled(field, x, _floor(field, x, x.shadow < 0))
    return whole


def whole_part(field: FieldBase, step: Step, x: FieldElement) -> FieldElement:
    """A number rounded towards zero, as a formula.

    Raises:
        NearTie, NotCovered: as `integral`.
    """
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
    """The argument, with a shadow on the right side of each jump.

    Raises:
        NearTie: a number is too close to a jump.
        NotCovered: a number is not finite, or too large to be rounded.
    """
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
