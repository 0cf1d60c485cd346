"""The largest and the smallest of numbers in the field domain, also where float64 cannot decide which one it is.

Which element is the largest follows the numbers of the case. Where several different formulas are too close to say, as
bfloat16 numbers that are equal or values below a mask of -1e9, the maximum is an unknown function of the set of them:
the same for the same formulas in any order, and whatever it is, it cancels where a softmax subtracts it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from samebits.errors import NotCovered
from samebits.interpret.equation import Array, Step, Type
from samebits.interpret.field import residues
from samebits.interpret.field.degrees import together
from samebits.interpret.field.element import TIE, FieldElement, reaching

if TYPE_CHECKING:
    from samebits.interpret.field.base import FieldBase

Rule = Callable[..., Any]


def reduced(sign: int) -> Rule:
    """The largest (sign 1) or smallest (-1) element over the axes of a reduction.

    Raises:
        NotCovered: a number is NaN, or there is none.
    """

    def rule(field: FieldBase, step: Step, value: Any) -> FieldElement:
        x, axes = field.element(value, step.inputs[0]), tuple(step.params["axes"])
        if not x.shadow.size:
            raise NotCovered(f"{step} looks for the best of nothing")
        kept = [dim for dim in range(len(x.shape)) if dim not in axes]
        ids = np.arange(x.shadow.size).reshape(x.shape).transpose([*kept, *axes])
        ids = ids.reshape(*(x.shape[dim] for dim in kept), math.prod(x.shape[axis] for axis in axes))
        return best_of(field, step, field.take([x], ids, Type(ids.shape, step.output.dtype)), sign)

    return rule


def of_two(field: FieldBase, step: Step, x: FieldElement, y: FieldElement, sign: int) -> FieldElement:
    """The larger or the smaller of two elements that broadcast, where they may be too close."""
    shape = np.broadcast_shapes(x.shape, y.shape)
    ids = [np.broadcast_to(np.arange(e.shadow.size).reshape(e.shape), shape) for e in (x, y)]
    index = np.stack([ids[0], ids[1] + x.shadow.size], -1)
    return best_of(field, step, field.take([x, y], index, Type(index.shape, step.output.dtype)), sign)


def best_of(field: FieldBase, step: Step, rows: FieldElement, sign: int) -> FieldElement:
    """The largest or smallest along the last axis.

    Raises:
        NotCovered: a number is NaN.
    """
    if np.isnan(rows.shadow).any():
        raise NotCovered(f"{step} orders numbers of which one is NaN")
    field.decided(step, rows)
    place = np.argmax(sign * rows.shadow, -1)[..., None]
    index = np.take_along_axis(np.arange(rows.shadow.size).reshape(rows.shape), place, -1)[..., 0]
    best = field.take([rows], index, step.output)
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
