"""Finds the first failing point of a history, which is a line or a graph with merges.

The search assumes that a point fails if one of its ancestors introduced the failure. As in git's bisection (its
documentation "bisect-lk2009", section "Bisection algorithm"), each run is at the point that best splits the candidates.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from samebits.bisect.search.trials import Outcome

P = TypeVar("P")


@dataclass(frozen=True, slots=True)
class FirstFailing(Generic[P]):
    """The first failing point.

    Args:
        culprits: the first failing point; several, oldest first, if untestable points hide which one it is.
    """

    culprits: tuple[P, ...]
    skipped: tuple[P, ...]
    candidates: int


def least_runs(candidates: int) -> int:
    """Return the smallest number of runs that can identify one of the candidates: both ends, then one bit per run."""
    return 2 + (math.ceil(math.log2(candidates)) if candidates > 1 else 0)


Narrowed = Callable[[P, Iterator[int]], None]
"""Receives a point that was judged, and the positions of the candidates that are left after it."""


def first_failing(
    parents: Mapping[P, Sequence[P]], bad: P, outcome: Callable[[P], Outcome], narrowed: Narrowed[P] | None = None
) -> FirstFailing[P]:
    """Return the first point that fails.

    Args:
        parents: of every candidate, oldest first; parents that are not candidates pass.
        bad: a candidate that fails, of which all others are ancestors.
    """
    order = list(parents)
    place = {point: number for number, point in enumerate(order)}
    above = _ancestors(parents, place)
    left = above[place[bad]]
    skipped: set[int] = set()
    lately = 0
    while True:
        choices = [i for i in _members(left) if i not in skipped and i != place[bad]]
        if left == 1 << place[bad] or not choices:
            break
        now = _best(choices, left, above, max(0, lately - 1))
        point, judged = order[now], outcome(order[now])
        if judged == "fail":
            left, bad = left & above[now], point
        elif judged == "pass":
            left &= ~above[now]
        else:
            skipped.add(now)
        if narrowed is not None:
            narrowed(point, _members(left))
        lately = lately + 1 if now in skipped else 0
    return FirstFailing(
        culprits=tuple(order[i] for i in _members(left)),
        skipped=tuple(order[i] for i in sorted(skipped)),
        candidates=len(order),
    )


def _ancestors(parents: Mapping[P, Sequence[P]], place: Mapping[P, int]) -> list[int]:
    """Return for each point the bit set of itself and its ancestors among the candidates."""
    ancestors = [0] * len(place)
    for point, number in place.items():
        bits = 1 << number
        for parent in parents[point]:
            if parent in place:
                if place[parent] >= number:
                    raise ValueError(f"{parent} is a parent of {point} and does not come before it")
                bits |= ancestors[place[parent]]
        ancestors[number] = bits
    return ancestors


def _members(bits: int) -> Iterator[int]:
    number = 0
    while bits:
        if bits & 1:
            yield number
        bits >>= 1
        number += 1


def _best(choices: Sequence[int], left: int, above: Sequence[int], skips: int) -> int:
    """Choose what best halves the candidates; after two skips in a row, another fraction."""
    total = left.bit_count()
    share = _spread(skips)
    return min(choices, key=lambda i: (abs((left & above[i]).bit_count() - share * total), i))


def _spread(number: int) -> float:
    """Yield 1/2, 1/4, 3/4, 1/8, 3/8, ...: the sequence of van der Corput, from its second half on."""
    number, total, share = number + 1, 0.0, 0.5
    while number:
        total += share * (number & 1)
        number >>= 1
        share /= 2
    return total
