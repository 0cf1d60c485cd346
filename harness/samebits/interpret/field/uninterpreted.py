"""Uninterpreted functions of the field domain: fresh elements, the same for the same arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from samebits.interpret.equation import Array
from samebits.interpret.field import residues
from samebits.interpret.field.element import FieldElement
from samebits.interpret.field.infinities import FINITE, MEANT

if TYPE_CHECKING:
    from samebits.interpret.field.base import FieldBase


def unknown_of(
    field: FieldBase,
    name: str,
    x: FieldElement,
    shadow: Array,
    *,
    odd: bool = False,
    even: bool = False,
    fixed: tuple[tuple[float, float], ...] = (),
) -> FieldElement:
    """What an unknown function of one argument gives.

    Args:
        field: the domain.
        name: of the function.
        x: its argument.
        shadow: its value.
        odd, even: f(-x) = -f(x), or f(x).
        fixed: arguments at which its value is known exactly.
    """
    flip: NDArray[np.bool_] = (x.shadow < 0) if odd or even else np.zeros(x.shape, bool)
    key = np.where(flip, residues.negate(x.parts[0], field.primes[0]), x.parts[0])
    result = field.unknown(name, [key], shadow, x.degree)
    parts = list(result.parts)
    for level, p in enumerate(field.primes):
        if odd:
            parts[level] = np.where(flip, residues.negate(parts[level], p), parts[level])
        for argument, known in fixed:
            at = (x.shadow == argument) & np.all(x.parts[0] == residue_of(field, argument, 0, x), 0)
            parts[level] = np.where(at, residue_of(field, known, level, x), parts[level])
    new = np.where(np.all(field.ring.vanishes(x.parts[0]), 0), MEANT, FINITE)  # as the logarithm of a zero
    return field.settled(FieldElement(tuple(parts), shadow, result.degree), [x], new=new)


def residue_of(field: FieldBase, value: float, level: int, like: FieldElement) -> Array:
    """A number as residues that broadcast against those of an element."""
    row = residues.from_floats(np.full((1,) * len(like.shape), value), field.primes[level])
    return field.everywhere(row)
