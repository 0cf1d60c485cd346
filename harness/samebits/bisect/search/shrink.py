"""Greedy shrinking of a failing point."""

from __future__ import annotations

from collections.abc import Callable, Iterable
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
