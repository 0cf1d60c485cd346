"""The ring in which the field domain multiplies: GF(p), or GF(p^2) where sqrt(x)^2 must equal x.

In GF(p) half of all numbers have no square root, so there `sqrt` is an unknown function. In GF(p^2) every number of
GF(p) has one, and sqrt(x)^2 is x, which a gradient written by hand relies on. It costs three times as much, so it is
the second attempt. An array has a row per repetition; in GF(p^2) the rows of the second coordinate follow those of
the first, and whatever is linear works on both alike.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from samebits.interpret.equation import Array
from samebits.interpret.field import residues
from samebits.interpret.field.residues import PRIMES

SQUARE = dict(zip(PRIMES, (-1, -1, -1, -1, 3), strict=True))
"""What the second coordinate's unit squares to, by prime: a number without a root in GF(p)."""


class Ring:
    """Multiplication of arrays of residues.

    Args:
        repetitions: how many random points an array holds.
        extended: whether in GF(p^2).
    """

    def __init__(self, repetitions: int, extended: bool) -> None:
        self.repetitions = repetitions
        self.extended = extended

    @property
    def rows(self) -> int:
        """The length of the first axis of an array of residues."""
        return self.repetitions * (2 if self.extended else 1)

    def real(self, array: Array) -> Array:
        """Residues of GF(p) [repetitions, ...] as residues of this ring."""
        return np.concatenate([array, np.zeros_like(array)]) if self.extended else array

    def _halves(self, array: Array) -> tuple[Array, Array]:
        return array[: self.repetitions], array[self.repetitions :]

    def vanishes(self, array: Array) -> NDArray[np.bool_]:
        """Per repetition and element, whether it is zero."""
        zero: NDArray[np.bool_] = np.equal(array, 0)
        return zero[: self.repetitions] & zero[self.repetitions :] if self.extended else zero

    def multiply(self, a: Array, b: Array, p: int) -> Array:
        """The product of two arrays that broadcast."""
        return self._product(a, b, p, residues.multiply)

    def matmul(self, a: Array, b: Array, p: int) -> Array:
        """`np.matmul`, batched."""
        return self._product(a, b, p, residues.matmul)

    def _product(self, a: Array, b: Array, p: int, times: Any) -> Array:
        if not self.extended:
            product: Array = times(a, b, p)
            return product
        (a0, a1), (b0, b1) = self._halves(a), self._halves(b)
        low, high = times(a0, b0, p), times(a1, b1, p)
        cross = times(residues.add(a0, a1, p), residues.add(b0, b1, p), p)
        middle = residues.subtract(residues.subtract(cross, low, p), high, p)
        return np.concatenate([residues.add(low, _scaled(high, SQUARE[p], p), p), middle])

    def power(self, a: Array, n: int, p: int) -> Array:
        """To a power of at least 1."""
        if not self.extended:
            return residues.power(a, n, p)
        if n == 1:
            return a
        half = self.power(a, n // 2, p)
        square = self.multiply(half, half, p)
        return self.multiply(square, a, p) if n % 2 else square

    def inverse(self, a: Array, p: int) -> Array:
        """One over each; 0 where it vanishes."""
        if not self.extended:
            return residues.inverse(a, p)
        first, second = self._halves(a)
        below = residues.inverse(self._norm(first, second, p), p)
        parts = residues.multiply(first, below, p), residues.multiply(residues.negate(second, p), below, p)
        return np.concatenate(parts)

    def _norm(self, first: Array, second: Array, p: int) -> Array:
        squares = residues.multiply(first, first, p), residues.multiply(second, second, p)
        return residues.subtract(squares[0], _scaled(squares[1], SQUARE[p], p), p)

    def running_product(self, a: Array, axis: int, p: int, reverse: bool = False) -> Array:
        """The products of the first element, of the first two, ... along an axis."""
        if not self.extended:
            return residues.cumulative_product(a, axis, p, reverse)
        order = range(a.shape[axis])
        rows, running = np.moveaxis(a, axis, 0).copy(), None
        for number in reversed(order) if reverse else order:
            running = rows[number] if running is None else self.multiply(running, rows[number], p)
            rows[number] = running
        return np.moveaxis(rows, 0, axis)

    def exponential(self, a: Array, level: int) -> Array:
        """A base to the power of each, in GF(p) of the level; `a` is modulo the next prime. A sum becomes a product."""
        if not self.extended:
            return residues.exponential(a, level)
        first, second = self._halves(a)
        # The second coordinate needs a base of its own: the first base to a secret power.
        key = np.zeros(1, np.int64)
        secret = residues.digest("second base", [key], PRIMES[level + 1], 0)[0]
        second = residues.multiply(second, secret, PRIMES[level + 1])
        powers = residues.exponential(first, level), residues.exponential(second, level)
        return self.real(residues.multiply(*powers, PRIMES[level]))

    def root(self, a: Array) -> tuple[Array, NDArray[np.bool_]]:
        """Square roots modulo the first prime, and per element whether all repetitions have one.

        Modulo p = 4 k + 3 the root of a square x is x^(k + 1). For x + y i with the norm n^2 a root is
        u + v i with u^2 = (x + n) / 2 or (x - n) / 2 and v = y / (2 u); Cohen, A Course in Computational Algebraic
        Number Theory, section 1.5.
        """
        p = PRIMES[0]
        if not self.extended:
            roots, fits = _root(a, p)
            return roots, np.all(fits, 0)
        x, y = self._halves(a)
        size, fits = _root(self._norm(x, y, p), p)
        # The norm of a square is a square, at every random point; elsewhere no root is looked for.
        there = np.all(fits, 0)
        first, second, squares = _roots(x[:, there], y[:, there], size[:, there], p)
        roots, known = np.zeros_like(a), np.zeros(there.shape, bool)
        roots[:, there], known[there] = np.concatenate([first, second]), np.all(squares, 0)
        return roots, known


def _scaled(a: Array, factor: int, p: int) -> Array:
    return residues.negate(a, p) if factor == -1 else residues.multiply(a, np.array(factor), p)


def _root(a: Array, p: int) -> tuple[Array, NDArray[np.bool_]]:
    """A root in GF(p), for p = 4 k + 3, and whether it is one."""
    candidate = residues.power(a, (p + 1) // 4, p)
    return candidate, residues.multiply(candidate, candidate, p) == a


def _roots(x: Array, y: Array, size: Array, p: int) -> tuple[Array, Array, NDArray[np.bool_]]:
    """Roots u + v i of x + y i with a root of its norm, for i^2 = -1, and which of them are roots; else 0."""
    half = np.array((p + 1) // 2)
    u, v, known = np.zeros_like(x), np.zeros_like(x), np.zeros(x.shape, bool)
    plain = y == 0  # where x is not a square, the root is a multiple of i
    v[plain], known[plain] = _root(residues.negate(x[plain], p), p)
    for n in (size, residues.negate(size, p)):
        left = ~known
        trial, fits = _root(residues.multiply(residues.add(x[left], n[left], p), half, p), p)
        upper = residues.multiply(residues.multiply(y[left], half, p), residues.inverse(trial, p), p)
        squares = residues.subtract(residues.multiply(trial, trial, p), residues.multiply(upper, upper, p), p)
        product = residues.multiply(trial, upper, p)
        fits &= (squares == x[left]) & (residues.add(product, product, p) == y[left])
        u[left], v[left], known[left] = np.where(fits, trial, 0), np.where(fits, upper, 0), fits
    v[~known] = 0
    return u, v, known
