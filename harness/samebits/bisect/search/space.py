"""What a search chooses from: its candidates, and what each point takes of them, for a drawing of the search."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

P = TypeVar("P")

Ranges = tuple[tuple[int, int], ...]
"""Positions of candidates as ranges, first and last included."""


def _nothing(_: object) -> tuple[int, ...]:
    return ()


def _no_measures(_: object) -> dict[str, int]:
    return {}


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchSpace(Generic[P]):
    """The candidates of a search.

    Args:
        candidates: what may be the cause, in order: commits (oldest first), steps, choices, options; empty where the
            search makes one point smaller.
        taken: the positions of the candidates that a point takes.
        measures: the sizes of a point, where it is made smaller.
    """

    candidates: tuple[str, ...] = ()
    taken: Callable[[P], Iterable[int]] = _nothing
    measures: Callable[[P], Mapping[str, int]] = _no_measures


def space_of_sets(names: Sequence[str]) -> SearchSpace[frozenset[str]]:
    """Return the space of a search whose points are sets of names."""
    place = {name: number for number, name in enumerate(names)}
    return SearchSpace(
        candidates=tuple(names), taken=lambda point: sorted(place[name] for name in point if name in place)
    )


def ranges(positions: Iterable[int]) -> Ranges:
    """Return ascending positions as ranges: `0 1 2 5` is `(0, 2), (5, 5)`."""
    pieces: list[tuple[int, int]] = []
    for position in positions:
        if pieces and pieces[-1][1] == position - 1:
            pieces[-1] = (pieces[-1][0], position)
        else:
            pieces.append((position, position))
    return tuple(pieces)
