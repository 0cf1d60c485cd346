"""Degree bounds of the polynomials of a field proof, as the Schwartz-Zippel lemma needs them.

Every value is a quotient N / L of polynomials in the random inputs. All denominators are those of some division; L is
written over the elements of all divisions, each to a power, and adding needs no new denominators. A function that the
field knows nothing of gives a fresh variable, of degree 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class DegreeBounds:
    """Bounds for all elements of an array.

    Args:
        top: the degree of the numerator.
        below: by division: the power of its denominators, and the degree of the product of all of them.
        guessed: whether a root is in it whose sign is not known.
    """

    top: int = 0
    below: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    guessed: bool = False

    @property
    def bottom(self) -> int:
        """The degree of the denominator."""
        return sum(power * size for power, size in self.below.values())

    @property
    def largest(self) -> int:
        """The degree of the polynomial that must vanish for a false equality to zero."""
        return max(self.top, self.bottom)

    def __mul__(self, other: DegreeBounds) -> DegreeBounds:
        below = dict(self.below)
        for key, (power, size) in other.below.items():
            below[key] = (below.get(key, (0, size))[0] + power, size)
        return DegreeBounds(self.top + other.top, below, self.guessed or other.guessed)

    def power(self, exponent: int) -> DegreeBounds:
        """Of a value to a positive power."""
        below = {key: (power * exponent, size) for key, (power, size) in self.below.items()}
        return DegreeBounds(self.top * exponent, below, self.guessed)

    def divided(self, key: int, count: int) -> DegreeBounds:
        """Of one over a value.

        Args:
            key: a number of this division's own.
            count: of elements that are divided by.
        """
        below = {key: (1, count * self.top)} if self.top else {}
        return DegreeBounds(self.bottom + max(count - 1, 0) * self.top, below, self.guessed)


def together(degrees: Iterable[DegreeBounds]) -> DegreeBounds:
    """Of a sum, and of a choice: all over one denominator."""
    degrees = list(degrees)
    below: dict[int, tuple[int, int]] = {}
    for degree in degrees:
        for key, (power, size) in degree.below.items():
            below[key] = (max(power, below.get(key, (0, size))[0]), size)
    whole = sum(power * size for power, size in below.values())
    top = max((degree.top + whole - degree.bottom for degree in degrees), default=0)
    return DegreeBounds(top, below, any(degree.guessed for degree in degrees))


VARIABLE = DegreeBounds(1)
"""Of a random input, and of what an unknown function gives."""
CONSTANT = DegreeBounds(0)
