"""Exact arithmetic in five prime fields, on NumPy arrays, in which identities of formulas are tested.

A residue is an int64 in [0, p). Functions take the prime `p` last, broadcast as NumPy does, and never write to their
arguments. The primes form a chain: the next one divides p - 1, so that GF(p) has a base whose powers repeat after
exactly that many. One exponential after another, with the law exp(a) exp(b) = exp(a + b), uses up one each.

Source: the two fields of the exponential are from Mirage (Wu et al., arXiv:2405.05751, on probabilistic equivalence).
"""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samebits.host import numpy_threads
from samebits.numerics import floats
from samebits.numerics.floats import Array
from samebits.numerics.seeds import generator

Residues = NDArray[np.int64]

PRIMES = (1125899858297759, 562949929148879, 281474964574439, 140737482287219, 70368741143609)
"""Each is twice the next plus one. Found by going down from 2^46 to the first n that begins five, with
a root of 7 in the largest, as all such have of 2, 3 and 5."""

BASES = (1052645139646856, 242225088408291, 54127680306771, 36361425153709)
"""Of order PRIMES[i + 1] in GF(PRIMES[i]): the square of sha256("samebits exponential i"), a big-endian number.
The base 4 has that order too, but would make exp(1) equal to the literal 4."""

_BLOCK = 1 << 14  # elements worked on at a time: the four arrays of a block stay in the cache
_SHORT, _HALF = 1 << 13, 25  # so many residues have a sum below 2^63; a lower half of so many bits serves for more
_DEPTH, _LIMB = 1 << 17, 17  # so many products of limbs of so many bits, three times over, have a sum below 2^53
_WINDOW = 13  # bits of an exponent looked up at a time


@functools.cache
def _reciprocal(p: int) -> float:
    """A float64 just below 1/p: a number v, rounded at most twice, times it has the integer part of v/p or one less.

    That product is the third rounding. If all three go up, it is not above v/p; if all three go down, it is less than
    one below, for v/p up to p. Both are checked here in rational numbers.
    """
    u, reciprocal = Fraction(1, 1 << 53), 1 / p
    while Fraction(reciprocal) * p * (1 + u) ** 3 > 1:
        reciprocal = math.nextafter(reciprocal, 0)
    if not 1 << 45 < p < 1 << 50 or p * (1 - Fraction(reciprocal) * p * (1 - u) ** 3) >= 1:
        raise ValueError(f"{p} is not between 2^45 and 2^50, where the quotients of float64 are good enough")
    return reciprocal


def _blockwise(kernel: Callable[..., None], *operands: Array) -> Residues:
    """`kernel(*operands, out, real, spare)` over blocks; `real` (float64) and `spare` (int64) are scratch."""
    shape = np.broadcast(*operands).shape
    if math.prod(shape) <= _BLOCK:
        out = np.empty(shape, np.int64)
        kernel(*operands, out, np.empty(shape), np.empty(shape, np.int64))
        return out
    real, spare = np.empty(_BLOCK), np.empty(_BLOCK, np.int64)
    access: list[Any] = [["readonly"]] * len(operands) + [["writeonly", "allocate"]]
    types: list[Any] = [None] * len(operands) + [np.int64]
    with np.nditer([*operands, None], ["external_loop", "buffered"], access, types, buffersize=_BLOCK) as blocks:
        for block in blocks:
            kernel(*block, real[: block[0].size], spare[: block[0].size])
        result: Residues = blocks.operands[-1]
    return result


def _settle(p: int, out: Residues, real: Array, spare: Residues) -> None:
    """Bring `out` into [0, p): it holds a number modulo 2^64, and `real` the number itself, rounded at most twice."""
    np.multiply(real, _reciprocal(p), out=real)
    np.copyto(spare, real, casting="unsafe")
    np.multiply(spare, p, out=spare)
    np.subtract(out, spare, out=out)  # both have wrapped around; the difference is right, and in [0, 2p)
    _lower(p, out, spare)


def _lower(p: int, out: Residues, spare: Residues) -> None:
    """From [0, 2p) to [0, p). Read without a sign, a negative number is huge, so that the minimum drops it."""
    np.subtract(out, p, out=spare)
    np.minimum(out.view(np.uint64), spare.view(np.uint64), out=out.view(np.uint64))


def _joined(digits: Sequence[Array], bits: int, p: int) -> Residues:
    """The number with these digits to the base 2^bits, the highest first; none negative, each below 2^64."""

    def kernel(first: Array, *arrays: Array) -> None:
        *rest, out, real, spare = arrays
        np.copyto(real, first)
        np.copyto(out, first, casting="unsafe")
        for digit in rest:
            np.multiply(real, 2.0**bits, out=real)
            np.add(real, digit, out=real)
            np.left_shift(out, bits, out=out)
            np.copyto(spare, digit, casting="unsafe")
            np.add(out, spare, out=out)
        _settle(p, out, real, spare)

    return _blockwise(kernel, *digits)


def add(a: Array, b: Array, p: int) -> Residues:
    """Return a + b."""
    return _blockwise(lambda a, b, out, _, spare: _lower(p, np.add(a, b, out=out), spare), a, b)


def subtract(a: Array, b: Array, p: int) -> Residues:
    """Return a - b."""
    return _blockwise(lambda a, b, out, _, spare: _lower(p, np.add(a - b, p, out=out), spare), a, b)


def negate(a: Array, p: int) -> Residues:
    """Return -a."""
    return subtract(np.zeros((), np.int64), a, p)


def multiply(a: Array, b: Array, p: int) -> Residues:
    """Return a * b, as a * b - q * p in int64, which wraps around, with the quotient q from float64."""

    def kernel(a: Array, b: Array, out: Residues, real: Array, spare: Residues) -> None:
        np.multiply(a, b, out=real, dtype=np.float64)
        _settle(p, np.multiply(a, b, out=out), real, spare)

    return _blockwise(kernel, a, b)


def power(a: Array, n: int, p: int) -> Residues:
    """Return a to the n; 0 to the 0 is 1. A negative n takes the inverse, which leaves 0 at 0."""
    if n < 0:
        return power(inverse(a, p), -n, p)
    if n < 2:
        return np.array(a, np.int64) if n else np.ones(np.shape(a), np.int64)
    root = power(a, n // 2, p)
    square = multiply(root, root, p)
    return multiply(square, a, p) if n % 2 else square


def inverse(a: Array, p: int) -> Residues:
    """Return 1 / a. Where a is 0 there is no inverse and the result is 0: the caller checks `a == 0`.

    One inverse serves for many, since that of a product gives those of both factors (Montgomery 1987, "Speeding the
    Pollard and elliptic curve methods of factorization", section 10.3.1).
    """
    zero = np.equal(a, 0)
    tree = [np.where(zero, 1, a).reshape(-1)]
    while (whole := tree[-1]).size > 16:
        half = whole.size // 2
        tree.append(np.concatenate([multiply(whole[:half], whole[half : 2 * half], p), whole[2 * half :]]))
    inverses = np.array([pow(int(value), -1, p) for value in tree.pop()], np.int64)
    for whole in reversed(tree):
        half = whole.size // 2
        first, second = multiply(inverses[:half], whole[half : 2 * half], p), multiply(inverses[:half], whole[:half], p)
        inverses = np.concatenate([first, second, inverses[half:]])
    return np.where(zero, 0, inverses.reshape(np.shape(a)))


@functools.cache
def _tables(level: int) -> tuple[Residues, ...]:
    """For each window of an exponent's bits, the powers of the base that it can contribute."""
    p, step, tables = PRIMES[level], BASES[level], []
    for _ in range(0, PRIMES[level + 1].bit_length(), _WINDOW):
        table = np.ones(1, np.int64)
        while table.size < 1 << _WINDOW:  # step is the base to the power that doubles the table
            table = np.concatenate([table, multiply(table, np.array(step), p)])
            step = step * step % p
        tables.append(table)
    return tuple(tables)


def exponential(x: Array, level: int) -> Residues:
    """BASES[level] to the power x, in GF(PRIMES[level]), for x in GF(PRIMES[level + 1]); level is 0 to 3."""
    if level not in range(len(BASES)) or np.any(x >= PRIMES[level + 1]):
        raise ValueError(f"no exponential into field {level} of these numbers; see PRIMES")
    first, *rest = _tables(level)
    result: Residues = np.asarray(first[x & (first.size - 1)])
    for number, table in enumerate(rest, 1):
        result = multiply(result, table[(x >> number * _WINDOW) & (table.size - 1)], PRIMES[level])
    return result


def _halves(a: Array, count: int) -> tuple[Array, ...]:
    """As many digits to the base 2^25 as a sum of `count` residues needs to stay below 2^63: the residue, or two."""
    return (a,) if count <= _SHORT else (a >> _HALF, a & ((1 << _HALF) - 1))


def total(a: Array, axis: int | tuple[int, ...], p: int) -> Residues:
    """The sum over one axis or several."""
    axes = axis if isinstance(axis, tuple) else (axis,)
    halves = _halves(a, math.prod(np.shape(a)[k] for k in axes))
    return _joined([np.sum(half, axes) for half in halves], _HALF, p)


def cumulative(a: Array, axis: int, p: int, reverse: bool = False) -> Residues:
    """The sums of the first element, of the first two, ... along an axis; from its end if reversed."""
    if reverse:
        return np.flip(cumulative(np.flip(a, axis), axis, p), axis)
    return _joined([half.cumsum(axis) for half in _halves(a, a.shape[axis])], _HALF, p)


def cumulative_product(a: Array, axis: int, p: int, reverse: bool = False) -> Residues:
    """The products of the first element, of the first two, ... along an axis; from its end if reversed."""
    if reverse:
        return np.flip(cumulative_product(np.flip(a, axis), axis, p), axis)
    result = np.array(np.moveaxis(a, axis, 0), np.int64)
    if len(result) > 1:  # the products of neighbours, cumulated, are every second result
        pairs = cumulative_product(multiply(result[:-1:2], result[1::2], p), 0, p)
        result[2::2] = multiply(pairs[: len(result[2::2])], result[2::2], p)
        result[1::2] = pairs
    return np.moveaxis(result, 0, axis)


def add_at(target: Array, index: Array, updates: Array, p: int) -> Residues:
    """A copy of `target` [R, n] with the `updates` [R, m] added at `index` [m]; those of equal index add up."""
    if index.size and not 0 <= index.min() <= index.max() < target.shape[1]:
        raise ValueError(f"an index is not in [0, {target.shape[1]})")
    sums = np.empty((2, *target.shape))  # float64 is exact up to m = 2^27
    for half, place in zip(_halves(updates, _SHORT + 1), sums, strict=True):
        for weights, row in zip(half, place, strict=True):
            row[:] = np.bincount(index, weights, minlength=len(row))
    sums[1] += target
    return _joined(tuple(sums), _HALF, p)


def matmul(a: Array, b: Array, p: int) -> Residues:
    """`np.matmul`, batched as there, from exact float64 products of limbs of 17 bits.

    Limbs i and j contribute a_i b_j + a_j b_i, which is a_i b_i + a_j b_j - (a_i - a_j)(b_i - b_j): one new product
    instead of two (Karatsuba and Ofman 1963).
    """
    if a.shape[-1] > _DEPTH:
        pieces = zip(np.split(a, [_DEPTH], -1), np.split(b, [_DEPTH], max(b.ndim - 2, 0)), strict=True)
        first, second = (matmul(left, right, p) for left, right in pieces)
        return add(first, second, p)
    a0, a1, a2 = _limbs(a)
    b0, b1, b2 = _limbs(b)
    low, middle, high = numpy_threads.matmul(a0, b0), numpy_threads.matmul(a1, b1), numpy_threads.matmul(a2, b2)
    upper = middle + high - numpy_threads.matmul(a1 - a2, b1 - b2)
    centre = low + high - numpy_threads.matmul(a0 - a2, b0 - b2) + middle
    lower = low + middle - numpy_threads.matmul(a0 - a1, b0 - b1)
    return _joined([_joined([high, upper, centre], _LIMB, p), lower, low], _LIMB, p)


def _limbs(a: Array) -> list[Array]:
    """Three limbs, the lowest first, in the layout that products are fast in."""
    return [np.array(a >> k * _LIMB & (1 << _LIMB) - 1, np.float64, order="C") for k in range(3)]


def from_integers(array: Array, p: int) -> Residues:
    """Integers of at most 64 bits, or bools; negative ones count down from p. A TypeError for anything else."""
    array = np.asarray(array)
    wide = array if array.dtype == np.uint64 else array.astype(np.int64, casting="safe")
    size = np.asarray(np.abs(wide)).view(np.uint64)  # right for -2^63 too, whose absolute value wraps around
    result = _joined([size], 0, p)
    return result if wide.dtype == np.uint64 else np.where(wide < 0, negate(result, p), result)


def from_floats(array: Array, p: int) -> Residues:
    """Finite floats of at most 64 bits, each as the number that it is: an integer times a power of two.

    A TypeError for anything else, a ValueError for NaN and infinity.
    """
    array = np.asarray(array)
    if not (floats.is_float(array.dtype) and floats.is_number(array.dtype)):
        raise TypeError(f"{array.dtype} is not a real float of at most 64 bits")
    with np.errstate(invalid="ignore"):  # a signalling NaN is refused below
        wide = array.astype(np.float64)
    if not np.isfinite(wide).all():
        raise ValueError("a NaN or an infinity is in no finite field")
    bits = wide.view(np.int64)
    exponent = (bits >> 52) & 0x7FF
    integer = (bits & ((1 << 52) - 1)) + (np.minimum(exponent, 1) << 52)  # subnormals have no leading one
    result = multiply(_joined([integer], 0, p), _scales(p)[exponent], p)
    return np.where(wide < 0, negate(result, p), result)


@functools.cache
def _scales(p: int) -> Residues:
    """The power of two that the last bit of a float64 stands for, by its exponent bits."""
    return np.array([pow(2, max(exponent, 1) - 1075, p) for exponent in range(0x7FF)], np.int64)


def draw(shape: tuple[int, ...], p: int, *seeds: str) -> Residues:
    """Uniform residues that depend on the seeds and on the prime; ("a", "b") and ("a/b",) are different seeds."""
    return generator("residues", str(p), repr(seeds)).integers(0, p, shape, np.int64)


def digest(name: str, keys: Sequence[Array], p: int, salt: int) -> Residues:
    """What an unknown function gives for its arguments: a hash of its name, the salt, the prime and each key in turn.

    The keys are one int64 array or more; each takes two rounds of `_mix`. If these give 64 uniform bits, no residue is
    more likely than (1 + 2^-14) / p.
    """
    seed = hashlib.sha256(repr((name, salt, p, len(keys))).encode()).digest()
    start, secret = int.from_bytes(seed[:8], "little"), int.from_bytes(seed[8:16], "little")

    def kernel(*arrays: Array) -> None:
        *blocks, out, real, spare = arrays
        state, scratch = out.view(np.uint64), spare.view(np.uint64)
        state[...] = start
        for block in blocks:
            _mix(np.bitwise_xor(state, block.view(np.uint64), out=state), scratch)
            _mix(np.add(state, secret, out=state), scratch)
        np.copyto(real, state)
        _settle(p, out, real, spare)

    # safe: two floats that differ must not become equal keys
    return _blockwise(kernel, *(np.asarray(key).astype(np.int64, casting="safe", copy=False) for key in keys))


def _mix(state: NDArray[np.uint64], scratch: NDArray[np.uint64]) -> None:
    """The finaliser of SplitMix64, one to one on 64 bits (variant 13 of David Stafford, "Better bit mixing", 2011)."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        np.bitwise_xor(state, np.right_shift(state, shift, out=scratch), out=state)
        np.multiply(state, factor, out=state)
    np.bitwise_xor(state, np.right_shift(state, 31, out=scratch), out=state)


# The ring in which the field domain multiplies: GF(p), or GF(p^2) where sqrt(x)^2 must equal x.
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
        return self._product(a, b, p, multiply)

    def matmul(self, a: Array, b: Array, p: int) -> Array:
        """`np.matmul`, batched."""
        return self._product(a, b, p, matmul)

    def _product(self, a: Array, b: Array, p: int, times: Any) -> Array:
        if not self.extended:
            product: Array = times(a, b, p)
            return product
        (a0, a1), (b0, b1) = self._halves(a), self._halves(b)
        low, high = times(a0, b0, p), times(a1, b1, p)
        cross = times(add(a0, a1, p), add(b0, b1, p), p)
        middle = subtract(subtract(cross, low, p), high, p)
        return np.concatenate([add(low, _scaled(high, SQUARE[p], p), p), middle])

    def power(self, a: Array, n: int, p: int) -> Array:
        """To a power of at least 1."""
        if not self.extended:
            return power(a, n, p)
        if n == 1:
            return a
        half = self.power(a, n // 2, p)
        square = self.multiply(half, half, p)
        return self.multiply(square, a, p) if n % 2 else square

    def inverse(self, a: Array, p: int) -> Array:
        """One over each; 0 where it vanishes."""
        if not self.extended:
            return inverse(a, p)
        first, second = self._halves(a)
        below = inverse(self._norm(first, second, p), p)
        parts = multiply(first, below, p), multiply(negate(second, p), below, p)
        return np.concatenate(parts)

    def _norm(self, first: Array, second: Array, p: int) -> Array:
        squares = multiply(first, first, p), multiply(second, second, p)
        return subtract(squares[0], _scaled(squares[1], SQUARE[p], p), p)

    def running_product(self, a: Array, axis: int, p: int, reverse: bool = False) -> Array:
        """The products of the first element, of the first two, ... along an axis."""
        if not self.extended:
            return cumulative_product(a, axis, p, reverse)
        order = range(a.shape[axis])
        rows, running = np.moveaxis(a, axis, 0).copy(), None
        for number in reversed(order) if reverse else order:
            running = rows[number] if running is None else self.multiply(running, rows[number], p)
            rows[number] = running
        return np.moveaxis(rows, 0, axis)

    def exponential(self, a: Array, level: int) -> Array:
        """A base to the power of each, in GF(p) of the level; `a` is modulo the next prime. A sum becomes a product."""
        if not self.extended:
            return exponential(a, level)
        first, second = self._halves(a)
        # The second coordinate needs a base of its own: the first base to a secret power.
        key = np.zeros(1, np.int64)
        secret = digest("second base", [key], PRIMES[level + 1], 0)[0]
        second = multiply(second, secret, PRIMES[level + 1])
        powers = exponential(first, level), exponential(second, level)
        return self.real(multiply(*powers, PRIMES[level]))

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
    return negate(a, p) if factor == -1 else multiply(a, np.array(factor), p)


def _root(a: Array, p: int) -> tuple[Array, NDArray[np.bool_]]:
    """A root in GF(p), for p = 4 k + 3, and whether it is one."""
    candidate = power(a, (p + 1) // 4, p)
    return candidate, multiply(candidate, candidate, p) == a


def _roots(x: Array, y: Array, size: Array, p: int) -> tuple[Array, Array, NDArray[np.bool_]]:
    """Roots u + v i of x + y i with a root of its norm, for i^2 = -1, and which of them are roots; else 0."""
    half = np.array((p + 1) // 2)
    u, v, known = np.zeros_like(x), np.zeros_like(x), np.zeros(x.shape, bool)
    plain = y == 0  # where x is not a square, the root is a multiple of i
    v[plain], known[plain] = _root(negate(x[plain], p), p)
    for n in (size, negate(size, p)):
        left = ~known
        trial, fits = _root(multiply(add(x[left], n[left], p), half, p), p)
        upper = multiply(multiply(y[left], half, p), inverse(trial, p), p)
        squares = subtract(multiply(trial, trial, p), multiply(upper, upper, p), p)
        product = multiply(trial, upper, p)
        fits &= (squares == x[left]) & (add(product, product, p) == y[left])
        u[left], v[left], known[left] = np.where(fits, trial, 0), np.where(fits, upper, 0), fits
    v[~known] = 0
    return u, v, known
