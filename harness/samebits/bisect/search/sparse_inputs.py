"""Few nonzero inputs, and those small whole numbers: by sets, then value by value.

Hypothesis' shrinker does this too (one of 4096 elements that matters in 119 tries, against 16 here), but it begins with
inputs that it draws itself, not with those that failed; and the command line does without it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from samebits.bisect.search.minimal_sets import one_minimal

SIMPLE: tuple[float, ...] = (1, -1, 2, -2, 3, -3, 4, -4, 8, -8, 0.5, -0.5)
"""What a value is replaced by, the simplest first."""


@dataclass(frozen=True, slots=True)
class SparseInputs:
    """What is left.

    Args:
        entries: by name, only those that are needed.
        looks: how many inputs were tried.
    """

    entries: Mapping[str, Any]
    looks: int


def fewest_inputs(
    entries: Mapping[str, Any],
    fails: Callable[[Mapping[str, Any]], bool],
    *,
    groups: Mapping[str, Sequence[str]] | None = None,
    allowed: Callable[[str, Any], bool] = lambda name, value: True,
    most: int = 4000,
) -> SparseInputs:
    """The fewest entries, of the simplest values, with which it still fails.

    Args:
        entries: values by name, which fail together; one that is left out is zero.
        fails: looks at some entries.
        groups: entries that are left out together first, such as whole arrays.
        allowed: whether an entry may have a value.
        most: inputs that are tried for the first part.
    """
    looks = 0

    def look(now: Mapping[str, Any]) -> bool:
        nonlocal looks
        looks += 1
        return fails(now)

    left = dict(entries)
    for members in (groups or {}).values():
        without = {name: value for name, value in left.items() if name not in set(members)}
        if len(without) < len(left) and look(without):
            left = without
    kept = one_minimal(list(left), lambda chosen: look({n: v for n, v in left.items() if n in chosen}), most)
    left = {name: value for name, value in left.items() if name in kept}
    for value in SIMPLE[:2]:
        same = {name: value if allowed(name, value) else old for name, old in left.items()}
        if same == left or look(same):
            left = same
            break
    for name, old in left.items():
        for value in SIMPLE:
            if value == old:
                break
            if allowed(name, value) and look({**left, name: value}):
                left[name] = value
                break
    return SparseInputs(left, looks)
