"""Shrinks a failing point greedily, and its inputs to few nonzero elements with small integer values.

Hypothesis' shrinker is not used because it starts from inputs that it generates itself, not from a given failing
input, and because it needs more tries: 119 against 16 to find the one element of 4096 that matters.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from samebits.bisect.search.minimal_sets import one_minimal

P = TypeVar("P")


def smallest(start: P, smaller: Callable[[P], Iterable[P]], fails: Callable[[P], bool]) -> P:
    """Move to the first smaller neighbour that fails, until no neighbour fails.

    The result is a local minimum: smaller than its neighbours that fail, not necessarily the smallest of all points.

    Args:
        smaller: the smaller neighbours of a point, the smallest first.
    """
    now = start
    while True:
        following = next((point for point in smaller(now) if fails(point)), None)
        if following is None:
            return now
        now = following


Axes = Sequence[tuple[str, int]]


def smaller_axes(axes: Axes) -> Iterator[tuple[tuple[str, int], ...]]:
    """Yield meshes in which one axis is smaller: first without it, then with each divisor of its size, ascending."""
    for name, _ in axes:
        if len(axes) > 1:
            yield tuple((other, size) for other, size in axes if other != name)
    for name, old in axes:
        for new in divisors(old)[:-1]:
            yield tuple((other, new if other == name else size) for other, size in axes)


def smaller_sizes(sizes: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """Yield smaller sizes: all cut to 1, 2, 4 or 8; one of them smaller; all, or two, divided by a divisor.

    Sizes often depend on each other (features, and half of the features); dividing them together keeps the relation.
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
    """Return all divisors in ascending order."""
    return [i for i in range(1, number + 1) if number % i == 0]


def smaller_values(size: int) -> list[int]:
    """Return smaller values of one size: 1 to 4, its divisors, one half, three quarters, ... and one less."""
    parts = [size - (size >> i) for i in range(1, size.bit_length())]
    return sorted({i for i in (1, 2, 3, 4, *divisors(size), *parts) if 0 < i < size})


SIMPLE: tuple[float, ...] = (1, -1, 2, -2, 3, -3, 4, -4, 8, -8, 0.5, -0.5)
"""Replacement values, the simplest first."""


@dataclass(frozen=True, slots=True)
class SparseInputs:
    """A reduced input."""

    entries: Mapping[str, Any]
    tried: int


def fewest_inputs(
    entries: Mapping[str, Any],
    fails: Callable[[Mapping[str, Any]], bool],
    *,
    groups: Mapping[str, Sequence[str]] | None = None,
    allowed: Callable[[str, Any], bool] = lambda name, value: True,
    most: int = 4000,
) -> SparseInputs:
    """Return the fewest entries, with the simplest values, that still fail: first by sets of entries, then by value.

    Args:
        entries: values by name, which fail together; an entry that is left out is zero.
        groups: entries that are left out together first, such as whole arrays.
    """
    tried = 0

    def still_fails(entries: Mapping[str, Any]) -> bool:
        nonlocal tried
        tried += 1
        return fails(entries)

    left = dict(entries)
    for members in (groups or {}).values():
        without = {name: value for name, value in left.items() if name not in set(members)}
        if len(without) < len(left) and still_fails(without):
            left = without
    needed = one_minimal(list(left), lambda chosen: still_fails({n: v for n, v in left.items() if n in chosen}), most)
    left = {name: value for name, value in left.items() if name in needed}
    for value in SIMPLE[:2]:
        same = {name: value if allowed(name, value) else old for name, old in left.items()}
        if same == left or still_fails(same):
            left = same
            break
    for name, old in left.items():
        for value in SIMPLE:
            if value == old:
                break
            if allowed(name, value) and still_fails({**left, name: value}):
                left[name] = value
                break
    return SparseInputs(left, tried)
