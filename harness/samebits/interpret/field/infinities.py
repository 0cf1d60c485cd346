"""Infinities and NaN in the field domain: they are not field elements, so each element is handled by itself.

Three kinds are distinguished. Some are *meant*: constants, and what arithmetic makes of them for any finite input, as a
mask of -inf. Some come of an exponential that overflows, which counts as infinite as one that underflows counts as
zero. All others, an infinite input and what is computed from it, only happen at these inputs: they keep the residues
of their formula, so that other formulas stay other formulas, and nothing is concluded from their being infinite.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from samebits.interpret.equation import Array
from samebits.interpret.field import residues
from samebits.interpret.field.element import FieldElement

if TYPE_CHECKING:
    from samebits.interpret.field.ring import Ring

FINITE, MEANT, BEYOND, DOUBTFUL = range(4)
"""What an element is: a number; an infinity or NaN that is meant; one beyond an exponential's range; any other."""


class Infinities:
    """What is known of the infinities of one instance of the domain.

    Args:
        ring: where residues multiply.
        primes: that elements are carried modulo.
    """

    def __init__(self, ring: Ring, primes: Sequence[int]) -> None:
        self._ring = ring
        self._primes = primes
        self._beyond: set[int] = set()
        self._given: set[int] = set()
        self.doubtful = False
        """Whether there was an infinity that only happens at these inputs."""

    def given(self, element: FieldElement) -> FieldElement:
        """An input, whose infinities may be moved."""
        odd = ~np.isfinite(element.shadow)
        if odd.any():
            self.doubtful = True
            self._given.update(element.parts[0][0][odd].tolist())
        return element

    def nature(self, element: FieldElement) -> Array:
        """Per element one of `FINITE`, `MEANT`, `BEYOND` and `DOUBTFUL`."""
        odd = ~np.isfinite(element.shadow)
        if not odd.any():
            return np.zeros(element.shape, np.int8)
        meant = np.all(element.parts[0] == self._standing(element.shadow, self._primes[0]), 0)
        beyond = self._among(element, self._beyond)
        return np.where(odd, np.where(meant, MEANT, np.where(beyond, BEYOND, DOUBTFUL)), FINITE).astype(np.int8)

    def is_moved(self, element: FieldElement) -> NDArray[np.bool_]:
        """Which infinite elements are those of an input, or meant by the program."""
        return np.equal(self.nature(element), MEANT) | self._among(element, self._given)

    def settled(
        self,
        element: FieldElement,
        operands: Sequence[FieldElement] = (),
        through: Callable[..., Array] | None = None,
        new: Array | int = FINITE,
    ) -> FieldElement:
        """The result of an operation, with residues that stand for those of its infinities that are meant.

        Args:
            element: the result.
            operands: what it was made of, element by element unless `through` is given.
            through: what the operation makes of an array of marks per operand: positive where a mark goes in.
            new: the nature of infinities that were made from numbers; those of constants are meant anyway.
        """
        element = self._sure(element)
        odd = ~np.isfinite(element.shadow)
        if not odd.any():
            return element
        nature = np.broadcast_to(np.int8(MEANT if element.degree.largest == 0 else FINITE), element.shape)
        nature = np.maximum(nature, new)
        natures = [self.nature(operand) for operand in operands]
        for kind in (MEANT, BEYOND, DOUBTFUL):
            marks = [np.equal(nature, kind) for nature in natures]
            if through is not None:
                marks = [through(*(mark.astype(np.float64) for mark in marks)) > 0]
            for mark in marks:
                nature = np.where(mark, np.maximum(nature, kind), nature)
        nature = np.where(odd, np.where(nature == FINITE, DOUBTFUL, nature), FINITE)
        parts = tuple(
            np.where(nature == MEANT, self._standing(element.shadow, p), part)
            for p, part in zip(self._primes, element.parts, strict=False)
        )
        self._beyond.update(parts[0][0][nature == BEYOND].tolist())
        self.doubtful = self.doubtful or bool(np.any(nature == DOUBTFUL))
        return replace(element, parts=parts)

    def _sure(self, element: FieldElement) -> FieldElement:
        """Clear the noise of constants and of exact zeros."""
        if element.reach is None:
            return element
        if element.degree.largest == 0:
            return replace(element, reach=None)
        zero = (element.shadow == 0) & (element.reach > 0)
        if zero.any():
            zero &= self._ring.vanishes(element.parts[0]).all(0)
            return replace(element, reach=np.where(zero, 0, element.reach))
        return element

    def _standing(self, shadow: Array, p: int) -> Array:
        """The residues that stand for infinities of these signs, and for NaN."""
        key = np.where(np.isnan(shadow), 0, 1)
        residue = residues.digest("not finite", [key], p, 0)
        residue = np.where(shadow < 0, residues.negate(residue, p), residue)
        return self._ring.real(np.broadcast_to(residue, (self._ring.repetitions, *residue.shape)))

    def _among(self, element: FieldElement, known: set[int]) -> NDArray[np.bool_]:
        """Which elements have residues that were noted."""
        return np.isin(element.parts[0][0], np.array(sorted(known), np.int64))
