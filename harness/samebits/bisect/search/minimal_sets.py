"""All minimal sets of changes that fail together: by halves, by delta debugging, and the proof that there is no other.

One set is found by halves (one change among n takes log2(n) looks, and one to see it fail alone) or, where that leads
nowhere, by divide and conquer: Junker, "QuickXplain" (AAAI 2004), section 4, a logarithmic form of Zeller and
Hildebrandt, "Simplifying and isolating failure-inducing input" (IEEE TSE 2002), section 3. The others are found by
leaving out one member of each known set: Reiter, "A theory of diagnosis from first principles" (1987), section 4.
The search assumes that a failing set still fails when changes are added; `MinimalSets.contradictions` lists the
observations that contradict this.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")

Fails = Callable[[frozenset[T]], bool]


@dataclass(frozen=True, slots=True)
class MinimalSets:
    """What was found.

    Args:
        minimal: each fails, and none of its subsets by one less does; in order of discovery.
        whole: whether there is no other; False when the limit of looks came first.
        contradictions: pairs of a failing set and a larger one that passes, both tried.
    """

    minimal: tuple[frozenset[str], ...]
    whole: bool
    contradictions: tuple[tuple[frozenset[str], frozenset[str]], ...]


class _LimitReached(Exception):
    """The limit of looks is reached."""


def minimal_sets(items: Sequence[str], fails: Callable[[frozenset[str]], bool], most: int = 200) -> MinimalSets:
    """All minimal failing sets.

    Args:
        items: all changes; together they fail, and none of them at all passes.
        fails: looks at a set.
        most: sets that are looked at; beyond, what is known is given.
    """
    seen: dict[frozenset[str], bool] = {frozenset(items): True, frozenset(): False}

    def look(chosen: frozenset[str]) -> bool:
        if chosen not in seen:
            if len(seen) >= most + 2:
                raise _LimitReached
            seen[chosen] = fails(chosen)
        return seen[chosen]

    found: list[frozenset[str]] = []
    whole = True
    try:
        left_out: list[frozenset[str]] = [frozenset()]
        done: set[frozenset[str]] = set()
        while left_out:
            without = left_out.pop(0)
            if without in done:
                continue
            done.add(without)
            one = next((known for known in found if not known & without), None)
            if one is None:
                rest = [item for item in items if item not in without]
                if not look(frozenset(rest)):
                    continue
                one = _minimal(rest, look)
                found.append(one)
            left_out += [without | {item} for item in sorted(one, key=items.index)]
    except _LimitReached:
        whole = False
    against = [(a, b) for a, failed in seen.items() if failed for b, other in seen.items() if not other and a < b]
    return MinimalSets(tuple(found), whole, tuple(against))


def one_minimal(items: Sequence[str], fails: Callable[[frozenset[str]], bool], most: int = 4000) -> frozenset[str]:
    """One minimal failing set; where the limit of looks comes first, the smallest failing set that was seen.

    Args:
        items: together they fail.
        fails: looks at a set.
        most: sets that are looked at.
    """
    seen: dict[frozenset[str], bool] = {frozenset(items): True}
    best = frozenset(items)

    def look(chosen: frozenset[str]) -> bool:
        nonlocal best
        if chosen not in seen:
            if len(seen) > most:
                raise _LimitReached
            seen[chosen] = fails(chosen)
            if seen[chosen] and len(chosen) < len(best):
                best = chosen
        return seen[chosen]

    try:
        if look(frozenset()):
            return frozenset()
        return _minimal(items, look)
    except _LimitReached:
        return best


def _minimal(items: Sequence[str], look: Fails[str]) -> frozenset[str]:
    """One minimal failing set of items that fail together."""
    one = _single(items, look)
    if one is not None:
        return one
    found = _explain(frozenset(), False, list(items), look)
    return _checked(found, items, look)


def _single(items: Sequence[str], look: Fails[str]) -> frozenset[str] | None:
    """The one change that fails alone, by halves; None where the halves lead to one that does not."""
    left = list(items)
    while len(left) > 1:
        half = left[: (len(left) + 1) // 2]
        left = half if look(frozenset(half)) else left[len(half) :]
    return frozenset(left) if look(frozenset(left)) else None


def _explain(background: frozenset[str], changed: bool, items: list[str], look: Fails[str]) -> frozenset[str]:
    """What of `items` is needed for a failure beside `background`."""
    if changed and look(background):
        return frozenset()
    if len(items) == 1:
        return frozenset(items)
    first, second = items[: len(items) // 2], items[len(items) // 2 :]
    later = _explain(background | frozenset(first), bool(first), second, look)
    sooner = _explain(background | later, bool(later), first, look)
    return sooner | later


def _checked(found: frozenset[str], items: Sequence[str], look: Fails[str]) -> frozenset[str]:
    """The set, seen to fail and with members left out that it fails without: nothing of it rests on assumptions."""
    if not look(found):
        # Changes that heal each other: begin with all, and leave out what can be left out.
        found = frozenset(items)
    for item in sorted(found, key=items.index):
        if len(found) > 1 and look(found - {item}):
            found -= {item}
    return found
