"""The smallest point that still fails, step by step."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

P = TypeVar("P")


def smallest(start: P, smaller: Callable[[P], Iterable[P]], fails: Callable[[P], bool]) -> P:
    """Take the first smaller point that fails, and go on from there until none does.

    What is found is smallest among its own neighbours, not among all points.

    Args:
        start: a point that fails.
        smaller: neighbours of a point, the smallest first; each must be smaller than the point.
        fails: looks at a point.
    """
    now = start
    while True:
        following = next((point for point in smaller(now) if fails(point)), None)
        if following is None:
            return now
        now = following
