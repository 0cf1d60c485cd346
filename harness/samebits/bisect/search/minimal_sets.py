"""Finds all minimal sets of changes that fail together, by binary search and delta debugging.

One set is found by binary search (one change among n takes log2(n) runs, and one more to see it fail alone) or, if that
does not succeed, by divide and conquer: Junker, "QuickXplain" (AAAI 2004), section 4, a logarithmic form of Zeller and
Hildebrandt, "Simplifying and isolating failure-inducing input" (IEEE TSE 2002), section 3. The others are found by
leaving out one member of each known set: Reiter, "A theory of diagnosis from first principles" (1987), section 4.
The search assumes that a failing set still fails when changes are added; `MinimalSets.contradictions` lists the
observations that contradict this; `healing_sets` does not assume it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from samebits.bisect.search.trials import Outcome

T = TypeVar("T")

Fails = Callable[[frozenset[T]], bool]


@dataclass(frozen=True, slots=True)
class MinimalSets:
    """Minimal failing sets.

    Args:
        minimal: sets that fail, and pass without any one member; in order of discovery.
        whole: whether the list is complete; False if the limit of runs came first.
        contradictions: pairs of a failing set and a larger set that passes, both tried.
    """

    minimal: tuple[frozenset[str], ...]
    whole: bool
    contradictions: tuple[tuple[frozenset[str], frozenset[str]], ...] = ()


class _LimitReached(Exception):
    """The limit of runs is reached."""


def minimal_sets(items: Sequence[str], fails: Callable[[frozenset[str]], bool], most: int = 200) -> MinimalSets:
    """Return all minimal failing sets.

    Args:
        items: all changes; together they fail, and the empty set passes.
        most: the largest number of sets to try; then the sets known so far are returned.
    """
    seen: dict[frozenset[str], bool] = {frozenset(items): True, frozenset(): False}

    def look(chosen: frozenset[str]) -> bool:
        if chosen not in seen:
            if len(seen) >= most + 2:
                raise _LimitReached
            seen[chosen] = fails(chosen)
        return seen[chosen]

    minimal: list[frozenset[str]] = []
    whole = True
    try:
        left_out: list[frozenset[str]] = [frozenset()]
        done: set[frozenset[str]] = set()
        while left_out:
            without = left_out.pop(0)
            if without in done:
                continue
            done.add(without)
            disjoint = next((known for known in minimal if not known & without), None)
            if disjoint is None:
                rest = [item for item in items if item not in without]
                if not look(frozenset(rest)):
                    continue
                disjoint = _minimal(rest, look)
                minimal.append(disjoint)
            left_out += [without | {item} for item in sorted(disjoint, key=items.index)]
    except _LimitReached:
        whole = False
    against = [(a, b) for a, failed in seen.items() if failed for b, other in seen.items() if not other and a < b]
    return MinimalSets(tuple(minimal), whole, tuple(against))


def one_minimal(items: Sequence[str], fails: Callable[[frozenset[str]], bool], most: int = 4000) -> frozenset[str]:
    """Return one minimal failing set, or the smallest failing set seen before the limit of runs."""
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
    """Return one minimal failing set of items that fail together."""
    single = _single(items, look)
    if single is not None:
        return single
    failing = _explain(frozenset(), False, list(items), look)
    return _checked(failing, items, look)


def _single(items: Sequence[str], look: Fails[str]) -> frozenset[str] | None:
    """Return the one change that fails alone, by binary search; None if the search ends at one that does not."""
    left = list(items)
    while len(left) > 1:
        half = left[: (len(left) + 1) // 2]
        left = half if look(frozenset(half)) else left[len(half) :]
    return frozenset(left) if look(frozenset(left)) else None


def _explain(background: frozenset[str], changed: bool, items: list[str], look: Fails[str]) -> frozenset[str]:
    """Return the subset of `items` that is needed for a failure together with `background`."""
    if changed and look(background):
        return frozenset()
    if len(items) == 1:
        return frozenset(items)
    first, second = items[: len(items) // 2], items[len(items) // 2 :]
    later = _explain(background | frozenset(first), bool(first), second, look)
    sooner = _explain(background | later, bool(later), first, look)
    return sooner | later


def _checked(failing: frozenset[str], items: Sequence[str], look: Fails[str]) -> frozenset[str]:
    """Return a set that was run and fails, with the members removed that it also fails without; nothing is assumed."""
    if not look(failing):
        # Changes that cancel each other: start with all of them, and leave out what is not needed.
        failing = frozenset(items)
    for item in sorted(failing, key=items.index):
        if len(failing) > 1 and look(failing - {item}):
            failing -= {item}
    return failing


def healing_sets(items: Sequence[str], outcome: Callable[[frozenset[str]], Outcome], *, most: int = 60) -> MinimalSets:
    """Return the minimal sets of changes that remove a difference.

    This is not monotone: one change may bring back the difference that another removes, so each change is also tried
    alone. Changes with which nothing can be judged are left out.

    Args:
        outcome: judges a set; `pass` if the difference is gone.
    """
    single = {item: outcome(frozenset({item})) for item in items}
    alone = tuple(frozenset({item}) for item in items if single[item] == "pass")
    left = [item for item in items if single[item] not in ("untestable", "ambiguous")]
    if alone:
        return MinimalSets(alone, False)
    while len(left) > 1:
        together = outcome(frozenset(left))
        if together == "pass":
            return minimal_sets(left, lambda chosen: bool(chosen) and outcome(chosen) == "pass", most)
        if together == "fail":
            break
        # Each change alone compiles, but all together do not: drop one of the smallest set that does not.
        broken = one_minimal(left, lambda chosen: bool(chosen) and outcome(chosen) in ("untestable", "ambiguous"), most)
        left.remove(min(broken, key=left.index))
    return MinimalSets((), True)
