"""A number of the field domain: residues at random points, a float64 shadow at the inputs of the case, a degree.

Beside the shadow goes its *reach*, to detect a near tie: how large the numbers are that it was added up from. x - y is
no larger than its noise where x and y are nearly equal, and neither is what is computed from it. Errors are taken to
have random signs, as squares that add up: bounds of the worst case would grow with every product of matrices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from samebits.interpret.arrays import ARITHMETIC
from samebits.interpret.equation import Array, Step
from samebits.interpret.field import residues

if TYPE_CHECKING:
    from samebits.interpret.field.residues import Ring


# Degree bounds of the polynomials of a field proof, as the Schwartz-Zippel lemma needs them.
@dataclass(frozen=True, slots=True)
class DegreeBounds:
    """Bounds for all elements of an array.

    Args:
        top: the degree of the numerator.
        below: by division: the power of its denominators, and the degree of the product of all of them.
        guessed: whether a root is in it whose sign is not known.
        each: the degrees of numerator and denominator of any one element by itself; None where all have one
            denominator. A function of each element is asked for these, however many denominators all of them have.
    """

    top: int = 0
    below: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    guessed: bool = False
    each: tuple[int, int] | None = None

    @property
    def bottom(self) -> int:
        """The degree of the denominator."""
        return sum(power * size for power, size in self.below.values())

    @property
    def largest(self) -> int:
        """The degree of the polynomial that must vanish for a false equality to zero."""
        return max(self.top, self.bottom)

    @property
    def one(self) -> tuple[int, int]:
        """The degrees of numerator and denominator of any one element."""
        return self.each if self.each is not None and max(self.each) < self.largest else (self.top, self.bottom)

    @property
    def of_few(self) -> int:
        """The degree of the polynomial that must vanish for a false equality of sums of a few elements."""
        return min(self.largest, FEW * max(self.one))

    def __mul__(self, other: DegreeBounds) -> DegreeBounds:
        below = dict(self.below)
        for key, (power, size) in other.below.items():
            below[key] = (below.get(key, (0, size))[0] + power, size)
        each = self.one[0] + other.one[0], self.one[1] + other.one[1]
        return DegreeBounds(self.top + other.top, below, self.guessed or other.guessed, each)

    def power(self, exponent: int) -> DegreeBounds:
        """Of a value to a positive power."""
        below = {key: (power * exponent, size) for key, (power, size) in self.below.items()}
        each = self.one[0] * exponent, self.one[1] * exponent
        return DegreeBounds(self.top * exponent, below, self.guessed, each)

    def divided(self, key: int, count: int) -> DegreeBounds:
        """Of one over a value.

        Args:
            key: a number of this division's own.
            count: of elements that are divided by.
        """
        below = {key: (1, count * self.top)} if self.top else {}
        return DegreeBounds(self.bottom + max(count - 1, 0) * self.top, below, self.guessed, self.one[::-1])

    @property
    def mixed(self) -> DegreeBounds:
        """Of sums over any of the elements, which have all their denominators."""
        return replace(self, each=None)


FEW = 4
"""Arguments in an accidental equality of exponentials: a product of two on each side.

Pairs are counted, as those of unknown functions are; what longer products have in common by accident is not bounded.
"""


def summed(first: DegreeBounds, second: DegreeBounds) -> DegreeBounds:
    """Of a sum, element by element."""
    (top, bottom), (other, below) = first.one, second.one
    return replace(together((first, second)), each=(max(top + below, other + bottom), bottom + below))


def together(degrees: Iterable[DegreeBounds]) -> DegreeBounds:
    """Of a choice: all over one denominator, and each element one of those that there were."""
    degrees = list({id(degree): degree for degree in degrees}.values())
    if len(degrees) == 1:
        return degrees[0]
    below: dict[int, tuple[int, int]] = {}
    for degree in degrees:
        for key, (power, size) in degree.below.items():
            below[key] = (max(power, below.get(key, (0, size))[0]), size)
    whole = sum(power * size for power, size in below.values())
    top = max((degree.top + whole - degree.bottom for degree in degrees), default=0)
    each = tuple(max((degree.one[side] for degree in degrees), default=0) for side in (0, 1))
    return DegreeBounds(top, below, any(degree.guessed for degree in degrees), each)  # type: ignore[arg-type]


VARIABLE = DegreeBounds(1)
"""Of a random input, and of what an unknown function gives."""
CONSTANT = DegreeBounds(0)


TIE = 1e-9
"""Numbers of a relative distance below this are too close for the shadow to say which is larger.

Noise below it: float64 sums of 1e6 terms, about 1e-13 without cancellation. A tie of *equal* elements is not near.
"""


_LOST = 2.0**-50
"""A term that is smaller than this part of the other one leaves no trace in a float64 sum."""


@dataclass(frozen=True, slots=True)
class FieldElement:
    """A symbolic value.

    Args:
        parts: per prime an int64 array [rows, *shape], the rows as `Ring` says; fewer where exponentials used some up.
        shadow: float64 [*shape], the value at the inputs of the case.
        degree: bounds for the polynomials.
        reach: float64 [*shape], the size of what the shadow was added up from; None where that is its own size.
        beside: what it is beside a logarithm, if anything is known of that; `terms` says it.
        above: which elements are positive whatever the shadow is off by; `positive` says it.
    """

    parts: tuple[Array, ...]
    shadow: Array
    degree: DegreeBounds
    reach: Array | None = None
    beside: BesideLogarithm | None = None
    above: AboveZero | None = None

    @property
    def size(self) -> Array:
        """What a difference of two shadows must be held against."""
        return np.abs(self.shadow) if self.reach is None else self.reach

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the value."""
        return self.shadow.shape

    @property
    def terms(self) -> BesideLogarithm | None:
        """What it is beside a logarithm; an element that got other residues has none."""
        return self.beside if self.beside is not None and self.beside.of is self.parts else None

    @property
    def positive(self) -> NDArray[np.bool_]:
        """Which elements are larger than zero: a sum of exponentials is, however large the noise of its shadow."""
        sure = self.shadow > TIE * self.size
        return sure if self.above is None or not self.is_above_zero else sure | self.above.where

    @property
    def is_above_zero(self) -> bool:
        """Whether more is known of its signs than the shadow says; not of an element that got other residues."""
        return self.above is not None and self.above.of is self.parts

    def above_zero(self, where: Array) -> FieldElement:
        """This element, known to be positive at some places; not where its shadow under- or overflows."""
        where = where & (self.shadow > 0) & np.isfinite(self.shadow)
        return replace(self, above=AboveZero(self.parts, where))

    def with_terms(self, rest: FieldElement, scale: FieldElement, factor: FieldElement) -> FieldElement:
        """This element as rest + scale * log(factor), as far as these are numbers."""
        return replace(self, beside=BesideLogarithm(self.parts, rest, scale, factor))


@dataclass(frozen=True, slots=True)
class BesideLogarithm:
    """An element as rest + scale * log(factor), for exp(x - log(y)) is exp(x) / y.

    The residues of a logarithm hold no law, but who takes the exponential of a sum needs its terms alone.

    Args:
        of: the residues of the element.
        rest: of its shape.
        scale: a constant, without a shape.
        factor: of the shape of the element.
    """

    of: tuple[Array, ...]
    rest: FieldElement
    scale: FieldElement
    factor: FieldElement


@dataclass(frozen=True, slots=True)
class AboveZero:
    """Where an element is positive as a formula, though its shadow may be nothing but noise.

    Args:
        of: the residues of the element.
        where: bool, of its shape.
    """

    of: tuple[Array, ...]
    where: NDArray[np.bool_]


def shadows(step: Step, *values: Any) -> Array:
    """The float64 value of an equation with one output, from the shadows of its inputs."""
    plain = [value.shadow if isinstance(value, FieldElement) else value for value in values]
    return np.asarray(ARITHMETIC[step.name](step, *plain)).reshape(step.output.shape)


def spread(element: FieldElement, shape: tuple[int, ...]) -> FieldElement:
    """An element broadcast to a shape: jax lets a scalar literal stand for an array."""
    if element.shape == shape:
        return element
    grown = (1,) * (len(shape) - element.shadow.ndim) + element.shape
    parts = tuple(np.broadcast_to(part.reshape(len(part), *grown), (len(part), *shape)) for part in element.parts)
    reach = None if element.reach is None else np.broadcast_to(element.reach, shape)
    result = FieldElement(parts, np.broadcast_to(element.shadow, shape), element.degree, reach)
    if element.is_above_zero:
        result = result.above_zero(np.broadcast_to(element.positive, shape))
    if (terms := element.terms) is None:
        return result
    return result.with_terms(spread(terms.rest, shape), terms.scale, spread(terms.factor, shape))


# -- how far a result reaches


def reaching(element: FieldElement, reach: Array | None) -> FieldElement:
    """An element with a reach, if that is more than its own size."""
    if reach is None:
        return element
    own = np.abs(element.shadow)
    reach = np.where(np.isfinite(reach), reach, 0)
    return replace(element, reach=np.maximum(reach, own) if np.any(reach / 2 > own) else None)


def rounded_off(shadow: Array, where: Array, reach: Array | None) -> Array | None:
    """The reach where float64 has rounded a number to one that looks exact: 1 less what was 1 - 1e-70 is not exactly 0.

    Args:
        where: which of them have been rounded to.
        reach: without that.
    """
    if not np.any(where):
        return reach
    own = np.abs(shadow)
    reach = own if reach is None else reach
    return np.where(where, np.maximum(reach, 3 * own), reach)  # `reaching` keeps what is more than twice the size


def sum_reach(shadow: Array, *terms: FieldElement) -> Array:
    """The reach of a sum or difference of one or two terms, element by element."""
    reach = added(*terms)
    if len(terms) < 2:
        return reach
    first, second = (np.abs(term.shadow) for term in terms)
    small, large = np.minimum(first, second), np.maximum(first, second)
    lost = (small > 0) & (np.abs(shadow) == large) & (small < _LOST * large)
    return np.asarray(rounded_off(shadow, lost, reach))


def added(*terms: FieldElement, total: Callable[..., Array] | None = None) -> Array:
    """The reach of a sum: of the terms, element by element, or as `total` adds up arrays of one number per term.

    Integers are added without noise.
    """
    exact = [(term.shadow == np.round(term.shadow)) & (term.size == np.abs(term.shadow)) for term in terms]
    if total is None:
        square = sum(term.size**2 for term in terms)
        return np.where(np.logical_and.reduce(exact), 0, np.sqrt(square))
    if all(is_exact.all() for is_exact in exact):
        return np.zeros(())
    return np.sqrt(total(*(term.size**2 for term in terms)))


def multiplied(first: FieldElement, second: FieldElement) -> Array | None:
    """The reach of a product: the relative one of the factor that is less sure."""
    if first.reach is None and second.reach is None:
        return None
    return np.asarray(np.maximum(np.abs(first.shadow) * second.size, first.size * np.abs(second.shadow)))


def scaled(element: FieldElement, shadow: Array) -> Array | None:
    """The reach of a result that is relatively as sure as an element, as its root or its reciprocal."""
    return None if element.reach is None else np.abs(shadow) * element.reach / np.abs(element.shadow)


def sensitive(step: Step, shadow: Array, x: FieldElement, *others: Any) -> Array | None:
    """The reach of a function of one element: what it makes of a small change."""
    if x.reach is None:
        return None
    small = 2.0**-20
    return np.asarray(np.abs(shadows(step, x.shadow + small * x.reach, *others) - shadow) / small)


# Infinities and NaN in the field domain: they are not field elements, so each element is handled by itself.
FINITE, MEANT, BEYOND, DOUBTFUL = range(4)
"""What an element is: a number; an infinity or NaN that is meant; one beyond an exponential's range; any other."""


class Infinities:
    """What is known of the infinities of one instance of the domain."""

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
