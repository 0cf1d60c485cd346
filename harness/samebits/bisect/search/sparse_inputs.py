"""Reduces a failing input to few nonzero elements with small integer values: first by sets of elements, then by value.

Hypothesis' shrinker is not used because it starts from inputs that it generates itself, not from a given failing
input, and because it needs more tries: 119 against 16 to find the one element of 4096 that matters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from samebits.bisect.search.minimal_sets import one_minimal

SIMPLE: tuple[float, ...] = (1, -1, 2, -2, 3, -3, 4, -4, 8, -8, 0.5, -0.5)
"""Replacement values, the simplest first."""


@dataclass(frozen=True, slots=True)
class SparseInputs:
    """A reduced input.

    Args:
        entries: the nonzero elements that are left, by name.
        tried: how many inputs were tried.
    """

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
    """The fewest entries, with the simplest values, that still fail.

    Args:
        entries: values by name, which fail together; an entry that is left out is zero.
        fails: whether the input with only these entries fails.
        groups: entries that are left out together first, such as whole arrays.
        allowed: whether an entry may have a value.
        most: the largest number of inputs to try while leaving entries out.
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
