"""Finds the changes that remove a difference: single changes first, then all together, then minimal sets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from samebits.bisect.search.judgement import Outcome
from samebits.bisect.search.minimal_sets import minimal_sets, one_minimal


@dataclass(frozen=True, slots=True)
class HealingSets:
    """The sets of changes that remove a difference.

    Args:
        minimal: sets of changes under which nothing differs; without any one member, something does.
        whole: whether the list is complete among the sets that were tried.
        essential: changes that were left out because nothing could be judged with them.
    """

    minimal: tuple[frozenset[str], ...]
    whole: bool
    essential: tuple[str, ...]


def healing_sets(items: Sequence[str], outcome: Callable[[frozenset[str]], Outcome], *, most: int = 60) -> HealingSets:
    """Return the minimal sets of changes that remove a difference.

    This is not monotone: one change may bring back the difference that another removes, so each change is also tried
    alone.

    Args:
        items: all changes.
        outcome: judges a set; `pass` if the difference is gone.
        most: the largest number of sets to try, besides the single changes.
    """
    single = {item: outcome(frozenset({item})) for item in items}
    alone = tuple(frozenset({item}) for item in items if single[item] == "pass")
    essential = [item for item in items if single[item] in ("untestable", "ambiguous")]
    left = [item for item in items if item not in essential]
    if alone:
        return HealingSets(alone, False, tuple(essential))
    while len(left) > 1:
        together = outcome(frozenset(left))
        if together == "pass":
            sets = minimal_sets(left, lambda chosen: bool(chosen) and outcome(chosen) == "pass", most)
            return HealingSets(sets.minimal, sets.whole, tuple(essential))
        if together == "fail":
            break
        # Each change alone compiles, but all together do not: drop one of the smallest set that does not.
        broken = one_minimal(left, lambda chosen: bool(chosen) and outcome(chosen) in ("untestable", "ambiguous"), most)
        gone = min(broken, key=left.index)
        essential.append(gone)
        left.remove(gone)
    return HealingSets((), True, tuple(essential))
