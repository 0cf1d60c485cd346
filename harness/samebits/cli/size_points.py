"""Which points `samebits prove --all-sizes` looks at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from samebits.programs.plan import LoadedPair


def of_all_sizes(loaded: Sequence[LoadedPair]) -> tuple[list[LoadedPair], list[str]]:
    """The pairs with their points of variants in auto mode, and a note on pairs that have none.

    The reference on a mesh is the same program of whole arrays. In explicit mode shardings are part of types, which
    symbols for sizes do not carry here.
    """
    chosen, notes = [], []
    for pair in loaded:
        points = tuple(
            point for point in pair.plan.points if point.variant != pair.pair.reference_name and point.mode == "auto"
        )
        if points:
            chosen.append(replace(pair, plan=replace(pair.plan, points=points)))
        else:
            notes.append(f"{pair.pair.name}: no point of a variant in auto mode; all sizes are proved there alone")
    return chosen, notes
