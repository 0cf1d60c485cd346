"""Which points `samebits prove --all-sizes` looks at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from samebits.engine.size_points import sized_points
from samebits.programs.plan import LoadedPair


def of_all_sizes(loaded: Sequence[LoadedPair]) -> tuple[list[LoadedPair], list[str]]:
    """The pairs with their points of variants that are proved for all sizes, and a note on pairs that have none."""
    chosen, notes = [], []
    for pair in loaded:
        points = sized_points(pair.pair, pair.plan.points)
        if points:
            chosen.append(replace(pair, plan=replace(pair.plan, points=points)))
        else:
            notes.append(f"{pair.pair.name}: no point of a variant; all sizes are proved of variants alone")
    return chosen, notes
