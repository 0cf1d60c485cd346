"""The elements of a proof over finite fields: random points, constants, decisions and near ties.

What the rules of primitives ask of the field domain; see `field` for the mathematics.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samebits.errors import NearTie, NotCovered
from samebits.interpret import literals
from samebits.interpret.data_movement import Move, owned
from samebits.interpret.equation import Array, Step, Type
from samebits.interpret.field import residues
from samebits.interpret.field.element import (
    CONSTANT,
    FINITE,
    MEANT,
    TIE,
    VARIABLE,
    DegreeBounds,
    FieldElement,
    Infinities,
    spread,
    together,
)
from samebits.interpret.field.residues import PRIMES, Ring

# The values computed so far by the programs of a proof, among which the root of a square is searched.
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


# Uninterpreted functions of the field domain: fresh elements, the same for the same arguments.
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
        odd, even: f(-x) = -f(x), or f(x).
        fixed: arguments at which its value is known exactly.
    """
    flip = _turned(x.parts[0], field.primes[0]) if odd or even else np.zeros(x.shape, bool)
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


def _turned(rows: Array, p: int) -> NDArray[np.bool_]:
    """Tell which of an element and its negative is turned around: by residues, since numbers near zero are noise."""
    turned: NDArray[np.bool_] = rows[0] > p // 2
    rest = rows[0] == 0
    for row in rows[1:]:
        if not rest.any():
            break
        turned, rest = turned | (rest & (row > p // 2)), rest & (row == 0)
    return turned


def residue_of(field: FieldBase, value: float, level: int, like: FieldElement) -> Array:
    """A number as residues that broadcast against those of an element."""
    row = residues.from_floats(np.full((1,) * len(like.shape), value), field.primes[level])
    return field.everywhere(row)


class FieldBase:
    """What the rules of the field domain work on; one instance serves both sides. `Field` adds the rules.

    Args:
        repetitions: how many independent random points are evaluated together.
        levels: how many primes are carried: one more than exponentials are nested, at most five.
        extended: whether square roots keep their law (see `Ring`).
        refilled: whether an exponential is an unknown function modulo the prime that it uses up, instead of leaving one
            prime less: then the outermost exponentials keep their law, not the innermost.
        seed: names what the random points depend on.
        vanishing: whether exponentials that underflow in float64 at the numbers of the case count as zero.
        deep: whether a factor that is a product itself is an unknown function of its value, as are exponentials and
            reciprocals: degrees stay small however many layers there are; sums and factors of two keep their laws.
    """

    name = "field"
    keeps_constants = False

    def __init__(
        self,
        repetitions: int = 2,
        levels: int = 3,
        extended: bool = False,
        seed: str = "",
        *,
        refilled: bool = False,
        vanishing: bool = True,
        deep: bool = False,
    ) -> None:
        self.deep = deep
        self.hidden: deque[tuple[FieldElement, FieldElement]] = deque(maxlen=8)
        """In a deep domain, the latest factors, of which the next products often take one again."""
        self.ring = Ring(repetitions, extended)
        self.primes = PRIMES[:levels]
        self.infinities = Infinities(self.ring, self.primes)
        self.settled = self.infinities.settled
        self.seed = seed
        self.refilled = refilled
        self.vanishing = vanishing
        self.calls: dict[str, tuple[int, int]] = {}
        """By uninterpreted function: how many elements it was asked for, and their largest degree."""
        self.nested = False
        """Whether an argument of an exponential may have another one in it."""
        self.side = 0
        """Which program is interpreted: 0 for the reference, 1 for the variant."""
        self.decisions: dict[str, None] = {}
        """What was decided by the numbers of the case: the primitives with their source lines, in order."""
        self.underflows = -math.inf
        """The largest argument of an exponential that underflows in float64 at the numbers of the case."""
        self.rooted = False
        """Whether roots were taken that keep their law."""
        self.unsigned = 0
        """How many roots of squares had no known sign."""
        self.values = HeldValues(repetitions)
        self.whole: set[int] = set()
        """The first residues of values that are integers as numbers, as those of `floor`."""
        self._inputs: dict[str, FieldElement] = {}
        self._divisions = 0

    def input(self, name: str, values: Array, kind: Type) -> FieldElement:
        """An input of random elements, with the numbers of the case as its shadow; the same for both sides."""
        if name not in self._inputs:
            shape = (self.ring.repetitions, *kind.shape)
            parts = tuple(self.ring.real(residues.draw(shape, p, self.seed, name)) for p in self.primes)
            element = FieldElement(parts, values.astype(np.float64).reshape(kind.shape), VARIABLE)
            self._inputs[name] = self.infinities.given(element)
            self.held(element)
        return self._inputs[name]

    # -- the interface of an abstract domain

    def lift(self, array: Array, kind: Type) -> FieldElement:
        """A constant: integers and booleans are exact, float literals stand for the number they were rounded from."""
        array = np.asarray(array)
        if not kind.is_float or array.dtype.kind in "biu":
            whole = array.astype(np.int64)
            exact = tuple(self.everywhere(residues.from_integers(whole, p)) for p in self.primes)
            return FieldElement(exact, array.astype(np.float64), CONSTANT)
        if array.size == 1:  # most constants are literals, and finding what repeats takes longer than the rest
            unique, places = array.astype(np.float64).reshape(1), np.zeros(1, np.intp)
        else:
            unique, places = np.unique(array.astype(np.float64), return_inverse=True, equal_nan=True)
        numbers = [self.number(float(v), array.dtype.name) if np.isfinite(v) else None for v in unique]
        shadow = np.array([v if n is None else float(n) for v, n in zip(unique, numbers, strict=True)])
        parts: list[Array] = []
        for p in self.primes:
            row = np.array([0 if n is None else self.constant(n, p) for n in numbers], np.int64)
            parts.append(self.everywhere(row[places].reshape(array.shape)))
        return self.settled(FieldElement(tuple(parts), shadow[places].reshape(array.shape), CONSTANT))

    def moved(self, values: Sequence[Any], move: Move, kind: Type) -> FieldElement:
        """Residues and shadows move together. What is not moved does not count: its degree, and the primes it has."""
        elements = [self.element(value, kind) for value in values]
        used = _used(elements, move)
        depth = min(len(elements[number].parts) for number in used)
        missing = np.zeros((), np.int64)
        parts = []
        for level in range(depth):
            sources = [
                element.parts[level]
                if level < len(element.parts)
                else np.broadcast_to(missing, (self.ring.rows, *element.shape))
                for element in elements
            ]
            parts.append(owned(move(sources, (self.ring.rows,))))
        shadow = owned(move([element.shadow for element in elements]))
        chosen = [elements[number] for number in used]
        result = FieldElement(tuple(parts), shadow, together(element.degree for element in chosen))
        if any(element.reach is not None for element in chosen):
            size = owned(move([element.size for element in elements]))
            result = replace(result, reach=size if np.any(size > 2 * np.abs(shadow)) else None)
        if any(element.is_above_zero for element in chosen):
            result = result.above_zero(owned(move([element.positive for element in elements])))
        return self._moved_terms(result, elements, chosen, move, kind)

    def _moved_terms(
        self, result: FieldElement, elements: list[FieldElement], chosen: list[FieldElement], move: Move, kind: Type
    ) -> FieldElement:
        """What was moved, with the terms of what it was moved from, if the logarithms in it have one scale."""
        known = [element.terms for element in chosen if element.terms is not None]
        if not known or any(not np.array_equal(terms.scale.parts[0], known[0].scale.parts[0]) for terms in known):
            return result
        unit = FieldElement(tuple(self.everywhere(np.ones((), np.int64)) for _ in self.primes), np.ones(()), CONSTANT)
        rests = [element.terms.rest if element.terms else element for element in elements]
        ones = [element.terms.factor if element.terms else spread(unit, element.shape) for element in elements]
        return result.with_terms(self.moved(rests, move, kind), known[0].scale, self.moved(ones, move, kind))

    def ranks(self, step: Step, value: Any, axis: int) -> Array:
        """Ranks by the shadow; elements whose residues are equal share one, and so do equal infinities."""
        element = self.element(value, step.inputs[0])
        self.decided(step, element)
        if np.isnan(element.shadow).any():
            raise NotCovered(f"{step} orders numbers of which one is NaN")
        order = np.argsort(element.shadow, axis, kind="stable")
        shadow = np.take_along_axis(element.shadow, order, axis)
        part = np.take_along_axis(element.parts[0], order[None], axis + 1)
        head = [slice(None)] * shadow.ndim
        tail = list(head)
        head[axis], tail[axis] = slice(None, -1), slice(1, None)
        equal = np.all(part[(slice(None), *head)] == part[(slice(None), *tail)], 0)
        low, high = shadow[tuple(head)], shadow[tuple(tail)]
        size = np.take_along_axis(element.size, order, axis)
        size = np.maximum(size[tuple(head)], size[tuple(tail)])
        self.refuse_ties(step, low, high, equal | ~_counts(step, low, high, size, axis), size)
        equal |= np.isinf(low) & (low == high)
        grown = np.zeros(shadow.shape, np.int64)
        grown[tuple(tail)] = np.cumsum(~equal, axis)
        ranks = np.empty_like(grown)
        np.put_along_axis(ranks, order, grown, axis)
        return ranks

    def concrete(self, step: Step, value: Any) -> Array:
        """Integers and booleans are concrete in this domain."""
        if isinstance(value, FieldElement):
            raise NotCovered(f"{step} takes a float where an integer decides")
        return np.asarray(value)

    def same(self, first: Any, second: Any) -> bool:
        """Whether two values are the same formula, as far as the random points show."""
        if isinstance(first, FieldElement) and isinstance(second, FieldElement):
            return bool(np.array_equal(first.parts[0], second.parts[0]))
        return bool(np.array_equal(np.asarray(first), np.asarray(second)))

    # -- for the rules

    def number(self, value: float, dtype: str) -> literals.SurdLiteral:
        """The number that a finite constant stands for."""
        return literals.number(value, dtype)

    def held(self, value: Any) -> None:
        """Note a value among which a root may be found, where roots keep their law."""
        if self.ring.extended and isinstance(value, FieldElement):
            self.values.add(value)

    def decided(self, step: Step, *elements: FieldElement) -> None:
        """Note that the numbers of the case decided something, unless these are constants."""
        if any(element.degree.largest for element in elements):
            self.decisions[f"{step.name} at {step.place}" if step.place else step.name] = None

    def element(self, value: Any, kind: Type) -> FieldElement:
        """A value as an element; concrete arrays are lifted."""
        return value if isinstance(value, FieldElement) else self.lift(np.asarray(value), kind)

    def refuse_ties(self, step: Step, first: Array, second: Array, equal: NDArray[np.bool_], size: Array) -> None:
        """Raise where numbers that are compared differ by less than the noise of the shadow.

        Args:
            equal: where the formulas are equal.
            size: of what the shadows were added up from.
        """
        with np.errstate(invalid="ignore"):
            near = np.abs(first - second) <= TIE * size
        near &= ~equal & np.isfinite(first) & np.isfinite(second)
        if near.any():
            at = int(np.flatnonzero(near.reshape(-1))[0])
            pair = " and ".join(repr(float(np.ravel(side)[at])) for side in (first, second))
            raise NearTie(f"{step} compares {pair}, too close to say which is larger; draw other inputs")

    def unknown(self, function: str, keys: Sequence[Array], shadow: Array, degree: DegreeBounds) -> FieldElement:
        """What a function of which no law is known gives: fresh elements, the same for the same arguments.

        Args:
            keys: residues of the arguments, all rows of them.
        """
        count, largest = self.calls.get(function, (0, 0))
        self.calls[function] = (count + int(shadow.size), max(largest, degree.largest))
        rows = [np.array(row, order="C") for key in keys for row in key]
        parts = tuple(
            self.ring.real(np.stack([residues.digest(function, rows, p, n) for n in range(self.ring.repetitions)]))
            for p in self.primes
        )
        return FieldElement(parts, shadow, VARIABLE)

    def division(self) -> int:
        """A number for a division."""
        self._divisions += 1
        return self._divisions

    def everywhere(self, row: Array) -> Array:
        """Residues that are the same at all random points."""
        return self.ring.real(np.broadcast_to(row, (self.ring.repetitions, *row.shape)))

    def constant(self, number: literals.SurdLiteral, p: int) -> int:
        """The residue of a literal's number."""
        rational = number.rational
        value = rational.numerator * pow(rational.denominator, -1, p) % p
        left, factor = number.radicand, 2
        while left > 1:
            factor = factor if factor <= literals.SIMPLE else left
            if left % factor == 0:
                left, value = left // factor, value * self._root_of(factor, p) % p
            else:
                factor += 1
        return value

    def _root_of(self, factor: int, p: int) -> int:
        """A root of a number, all of whose products are the roots of products; a name where the field has no root."""
        root = pow(factor, (p + 1) // 4, p)
        if root * root % p == factor:
            return root
        self.calls["root of a number"] = (1, 0)
        return int(residues.digest("root", [np.array([factor], np.int64)], p, 0)[0])


def _counts(step: Step, low: Array, high: Array, size: Array, axis: int) -> Array:
    """Which pairs of neighbours in ascending order a choice compares: of an argmax only those near the top."""
    if not low.size or step.name not in ("argmax", "argmin", "top_k"):
        return np.ones((), bool)
    if step.name == "top_k":
        places = np.arange(low.shape[axis]).reshape([-1 if dim == axis else 1 for dim in range(low.ndim)])
        return np.asarray(places >= low.shape[axis] - step.params["k"])
    with np.errstate(invalid="ignore"):
        if step.name == "argmax":
            return np.asarray(np.abs(np.max(high, axis, keepdims=True) - high) <= TIE * size)
        return np.asarray(np.abs(low - np.min(low, axis, keepdims=True)) <= TIE * size)


def _used(elements: Sequence[FieldElement], move: Move) -> Sequence[int]:
    """Return the numbers of the elements of which a move takes something; the first where it takes nothing."""
    if len(elements) == 1:
        return [0]
    kind = np.uint8 if len(elements) <= 256 else np.uint32
    moved = move([np.broadcast_to(kind(number), element.shape) for number, element in enumerate(elements)])
    if len(elements) == 2:
        return [number for number, none in enumerate((moved.all(), not moved.any())) if not none] if moved.size else [0]
    return np.flatnonzero(np.bincount(moved.reshape(-1), minlength=1)).tolist() or [0]
