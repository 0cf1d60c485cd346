"""The values computed so far by the programs of a proof, among which the root of a square is searched."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from samebits.interpret.equation import Array
from samebits.interpret.field import residues
from samebits.interpret.field.element import TIE, FieldElement
from samebits.interpret.field.residues import PRIMES

_HELD = 1 << 22  # elements of the values that are searched for a root


@dataclass(frozen=True, slots=True)
class _Run:
    """Values that were held one after another, sorted by their residue at the first random point.

    Args:
        keys: those residues, in order.
        order: the place of each among the values.
        rows: the values [rows, n].
        shadows: their float64 numbers; 0 where the sign is not sure.
    """

    keys: Array
    order: Array
    rows: Array
    shadows: Array

    @classmethod
    def of(cls, rows: Array, shadows: Array) -> _Run:
        """Of values that are not sorted yet."""
        order = np.argsort(rows[0], kind="stable")
        return cls(rows[0][order], order, rows, shadows)

    def places(self, keys: Array) -> tuple[Array, NDArray[np.bool_]]:
        """The first value of each key, and which keys have one."""
        at = np.minimum(np.searchsorted(self.keys, keys), self.keys.size - 1)
        return self.order[at], self.keys[at] == keys


class HeldValues:
    """The values that the programs have held, to find roots among.

    Args:
        repetitions: how many random points there are; the rows of the second coordinate follow.
    """

    def __init__(self, repetitions: int) -> None:
        self._repetitions = repetitions
        self._new: list[tuple[Array, Array]] = []
        self._runs: list[_Run] = []
        self._size = 0

    def add(self, element: FieldElement) -> None:
        """Hold a value that varies; one with a root of unknown sign is left out, and so is what is beyond a limit."""
        if (
            element.degree.largest
            and not element.degree.guessed
            and element.shadow.size
            and self._size + element.shadow.size <= _HELD
        ):
            sure = np.abs(element.shadow) > TIE * element.size
            self.hold(element.parts[0], np.where(sure, element.shadow, 0))

    def hold(self, rows: Array, shadows: Array) -> None:
        """Hold residues [rows, ...] and the float64 numbers of them [...]; 0 is a number whose sign is not sure."""
        self._new.append((rows.reshape(len(rows), -1), shadows.reshape(-1)))
        self._size += shadows.size

    def absolute(self, roots: Array) -> tuple[Array, NDArray[np.bool_]]:
        """The same roots [rows, n], each with the sign of the positive number; and for which of them that is known.

        Random points have signs of their own: a root at one of them fits a value or its negative.
        """
        signed, known = roots.copy(), np.zeros(roots.shape[1], bool)
        self._sort()
        opposite = residues.negate(roots, PRIMES[0])
        for wanted in (roots, opposite):
            met = known.copy()  # the first value that was held decides
            for run in self._runs:
                places, occurs = run.places(wanted[0])
                chosen = np.flatnonzero(occurs & ~met)
                met[chosen] = True
                values, shadows = run.rows[:, places[chosen]], run.shadows[places[chosen]]
                fits = (shadows != 0) & self._fits(values, roots[:, chosen], opposite[:, chosen])
                positive = np.where(shadows > 0, values, residues.negate(values, PRIMES[0]))
                signed[:, chosen[fits]] = positive[:, fits]
                known[chosen[fits]] = True
        return signed, known

    def _sort(self) -> None:
        """Sort what is new. Runs that are not twice as long as the next one are joined, so that there are few."""
        if self._new:
            rows, shadows = zip(*self._new, strict=True)
            self._new = []
            self._runs.append(_Run.of(np.concatenate(rows, 1), np.concatenate(shadows)))
        while len(self._runs) > 1 and self._runs[-2].keys.size < 2 * self._runs[-1].keys.size:
            last = self._runs.pop()
            before = self._runs.pop()
            rows, shadows = (before.rows, last.rows), (before.shadows, last.shadows)
            self._runs.append(_Run.of(np.concatenate(rows, 1), np.concatenate(shadows)))

    def _fits(self, values: Array, roots: Array, opposite: Array) -> NDArray[np.bool_]:
        """Which values [rows, n] are a root or its negative at every random point."""
        fits = np.ones(values.shape[1], bool)
        for number in range(self._repetitions):
            rows = slice(number, None, self._repetitions)
            same, other = (np.all(values[rows] == each[rows], 0) for each in (roots, opposite))
            fits &= same | other
        return fits
