"""The values computed so far by the programs of a proof, among which the root of a square is searched."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from samebits.interpret.equation import Array
from samebits.interpret.field import residues
from samebits.interpret.field.element import TIE, FieldElement
from samebits.interpret.field.residues import PRIMES

_HELD = 1 << 22  # elements of the values that are searched for a root


class HeldValues:
    """The values that the programs have held, to find roots among.

    Args:
        repetitions: how many random points there are; the rows of the second coordinate follow.
    """

    def __init__(self, repetitions: int) -> None:
        self._repetitions = repetitions
        self._rows: list[Array] = []
        self._shadows: list[Array] = []
        self._size = 0
        self._sorted: tuple[Array, Array] | None = None

    def add(self, element: FieldElement) -> None:
        """Hold a value that varies; one with a root of unknown sign is left out, and so is what is beyond a limit."""
        if (
            element.degree.largest
            and not element.degree.guessed
            and element.shadow.size
            and self._size + element.shadow.size <= _HELD
        ):
            sure = np.abs(element.shadow) > TIE * element.size
            self._rows.append(element.parts[0].reshape(len(element.parts[0]), -1))
            self._shadows.append(np.where(sure, element.shadow, 0).reshape(-1))
            self._size += element.shadow.size
            self._sorted = None

    def absolute(self, roots: Array) -> tuple[Array, NDArray[np.bool_]]:
        """The same roots [rows, n], each with the sign of the positive number; and for which of them that is known.

        Random points have signs of their own: a root at one of them fits a value or its negative.
        """
        signed, known = roots.copy(), np.zeros(roots.shape[1], bool)
        if not self._rows or not roots.shape[1]:
            return signed, known
        if self._sorted is None:
            keys = np.concatenate([rows[0] for rows in self._rows])
            order = np.argsort(keys, kind="stable")
            self._sorted = keys[order], order
        keys, order = self._sorted
        ends = np.cumsum([shadow.size for shadow in self._shadows])
        opposite = residues.negate(roots, PRIMES[0])
        for wanted in (roots, opposite):
            at = np.minimum(np.searchsorted(keys, wanted[0]), keys.size - 1)
            for number in np.flatnonzero((keys[at] == wanted[0]) & ~known):
                place = order[at[number]]
                block = int(np.searchsorted(ends, place, side="right"))
                own = place - (ends[block] - self._shadows[block].size)
                value, shadow = self._rows[block][:, own], self._shadows[block][own]
                if shadow and self._fits(value, roots[:, number], opposite[:, number]):
                    signed[:, number] = value if shadow > 0 else residues.negate(value, PRIMES[0])
                    known[number] = True
        return signed, known

    def _fits(self, value: Array, root: Array, opposite: Array) -> bool:
        """Whether a value is a root or its negative at every random point."""
        points = self._repetitions
        for number in range(points):
            rows = slice(number, None, points)
            if not (np.array_equal(value[rows], root[rows]) or np.array_equal(value[rows], opposite[rows])):
                return False
        return True
