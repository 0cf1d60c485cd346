"""Smaller meshes and smaller sizes, as names and numbers: what a shrinking search tries next."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

Axes = Sequence[tuple[str, int]]


def smaller_axes(axes: Axes) -> Iterator[tuple[tuple[str, int], ...]]:
    """Meshes with less of one axis: first without it, then with one device of it, then with each divisor upwards.

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
    """Sizes with less: all cut to 1, 2, 4 or 8; one of them smaller; then all, and every two, divided by one number.

    Sizes often depend on each other (features and half of them): divided together they go on fitting.

    Args:
        sizes: by name.
    """
    seen = [dict(sizes)]

    def new(found: dict[str, int]) -> bool:
        fresh = found not in seen
        seen.append(found)
        return fresh

    for most in (1, 2, 4, 8):
        found = {name: min(size, most) for name, size in sizes.items()}
        if new(found):
            yield found
    for name, size in sizes.items():
        for less in steps(size):
            if new({**sizes, name: less}):
                yield {**sizes, name: less}
    large = [name for name, size in sizes.items() if size > 1]
    for names in (large, *itertools.combinations(large, 2)):
        for by in reversed(divisors(math.gcd(*(sizes[name] for name in names)))[1:]):
            found = {name: size // by if name in names else size for name, size in sizes.items()}
            if new(found):
                yield found


def divisors(number: int) -> list[int]:
    """All divisors, smallest first."""
    return [i for i in range(1, number + 1) if number % i == 0]


def steps(size: int) -> list[int]:
    """Smaller sizes to try: the first four, divisors, a half, three quarters, ... and one less."""
    parts = [size - (size >> i) for i in range(1, size.bit_length())]
    return sorted({i for i in (1, 2, 3, 4, *divisors(size), *parts) if 0 < i < size})
