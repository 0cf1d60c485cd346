"""What heals a difference: single changes first, then all together, then the minimal sets among them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from samebits.bisect.search.judgement import Outcome
from samebits.bisect.search.minimal_sets import minimal_sets, one_minimal


@dataclass(frozen=True, slots=True)
class HealingSets:
    """What was found.

    Args:
        minimal: sets of changes under which nothing differs; none of their subsets by one less does that.
        whole: whether there is no other among the sets that were looked at.
        essential: changes without which nothing could be judged, and that were left out therefore.
    """

    minimal: tuple[frozenset[str], ...]
    whole: bool
    essential: tuple[str, ...]


def healing_sets(items: Sequence[str], outcome: Callable[[frozenset[str]], Outcome], *, most: int = 60) -> HealingSets:
    """The minimal sets of changes that heal.

    Healing is not monotone: one change may undo what another heals. So each change is tried alone too.

    Args:
        items: all changes.
        outcome: looks at a set: `pass` where it heals.
        most: sets that are looked at beyond the single ones.
    """
    single = {item: outcome(frozenset({item})) for item in items}
    alone = tuple(frozenset({item}) for item in items if single[item] == "pass")
    essential = [item for item in items if single[item] in ("untestable", "ambiguous")]
    left = [item for item in items if item not in essential]
    if alone:
        return HealingSets(alone, False, tuple(essential))
    while len(left) > 1:
        found = outcome(frozenset(left))
        if found == "pass":
            sets = minimal_sets(left, lambda chosen: bool(chosen) and outcome(chosen) == "pass", most)
            return HealingSets(sets.minimal, sets.whole, tuple(essential))
        if found == "fail":
            break
        # Together they leave nothing that compiles, though each alone does: drop one of the smallest such set.
        broken = one_minimal(left, lambda chosen: bool(chosen) and outcome(chosen) in ("untestable", "ambiguous"), most)
        gone = min(broken, key=left.index)
        essential.append(gone)
        left.remove(gone)
    return HealingSets((), True, tuple(essential))
