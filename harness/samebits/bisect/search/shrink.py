"""Greedy shrinking of a failing point."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

P = TypeVar("P")


def smallest(start: P, smaller: Callable[[P], Iterable[P]], fails: Callable[[P], bool]) -> P:
    """Move to the first smaller neighbour that fails, until no neighbour fails.

    The result is a local minimum: smaller than its neighbours that fail, not necessarily the smallest of all points.

    Args:
        start: a point that fails.
        smaller: the smaller neighbours of a point, the smallest first.
        fails: whether a point fails.
    """
    now = start
    while True:
        following = next((point for point in smaller(now) if fails(point)), None)
        if following is None:
            return now
        now = following


Axes = Sequence[tuple[str, int]]


def smaller_axes(axes: Axes) -> Iterator[tuple[tuple[str, int], ...]]:
    """Meshes in which one axis is smaller: first without that axis, then with each divisor of its size, ascending.

    Args:
        axes: names and sizes, in order.
    """
    for name, _ in axes:
        if len(axes) > 1:
            yield tuple((other, size) for other, size in axes if other != name)
    for name, old in axes:
        for new in divisors(old)[:-1]:
            yield tuple((other, new if other == name else size) for other, size in axes)


def smaller_sizes(sizes: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """Smaller sizes: all cut to 1, 2, 4 or 8; then one of them smaller; then all, or two of them, divided by a divisor.

    Sizes often depend on each other (features, and half of the features); dividing them together keeps the relation.

    Args:
        sizes: by name.
    """
    seen = [dict(sizes)]

    def new(candidate: dict[str, int]) -> bool:
        fresh = candidate not in seen
        seen.append(candidate)
        return fresh

    for most in (1, 2, 4, 8):
        candidate = {name: min(size, most) for name, size in sizes.items()}
        if new(candidate):
            yield candidate
    for name, size in sizes.items():
        for less in smaller_values(size):
            if new({**sizes, name: less}):
                yield {**sizes, name: less}
    large = [name for name, size in sizes.items() if size > 1]
    for names in (large, *itertools.combinations(large, 2)):
        for by in reversed(divisors(math.gcd(*(sizes[name] for name in names)))[1:]):
            candidate = {name: size // by if name in names else size for name, size in sizes.items()}
            if new(candidate):
                yield candidate


def divisors(number: int) -> list[int]:
    """All divisors in ascending order."""
    return [i for i in range(1, number + 1) if number % i == 0]


def smaller_values(size: int) -> list[int]:
    """Smaller values of one size: 1 to 4, its divisors, one half, three quarters, ... and one less; ascending."""
    parts = [size - (size >> i) for i in range(1, size.bit_length())]
    return sorted({i for i in (1, 2, 3, 4, *divisors(size), *parts) if 0 < i < size})
