"""Square roots in the field domain: their law, and which of the two roots of a square is meant.

The residues of a square do not say which of its two roots is the larger one as a number. Where the argument of a root
is the square of a value that the programs hold, the shadow of that value says it: sqrt(x x) is |x|, element by element.
A root at a random point of an argument that is not a formula's square lies outside GF(p) with probability one half, and
there either root will do: no formula without this root equals it. So an argument whose roots lie in GF(p) at many
random points is the square of a formula; if no value of the programs is that formula, its root has no known sign, and
stays an unknown function. At few random points a root may be taken with either sign: then a proof is only a guess,
which must be confirmed at `CONFIRMED` points.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from samebits.interpret import literals
from samebits.interpret.equation import Array
from samebits.interpret.field.element import FieldElement, reaching, scaled
from samebits.interpret.field.uninterpreted import unknown_of

if TYPE_CHECKING:
    from samebits.interpret.field.base import FieldBase

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
