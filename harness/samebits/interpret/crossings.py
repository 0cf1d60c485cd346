"""Numbers of one input at which the two numbers of a condition meet, by bisection: ties, thresholds, ends of clips."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from samebits.interpret.conditions import Condition, value_of
from samebits.interpret.equation import Array

HALVINGS = 64
"""As many as there are bits in the largest number."""


def crossings(condition: Condition, number: int, inputs: Mapping[int, Array], grid: Array) -> Array:
    """The numbers of a grid at which a condition holds as a tie, and the two nearest ones where it changes sides.

    Args:
        condition: the two numbers that are compared.
        number: of the input that is varied.
        inputs: by number, one element of each of the others.
        grid: ascending, in the dtype of the evaluation; integers are never split.
    """

    def order(values: Array) -> Array:
        at = {other: np.resize(each, values.size) for other, each in inputs.items()} | {number: values}
        known: dict[int, Array] = {}
        first, second = (value_of(term, at, known).astype(np.float64) for term in (condition.first, condition.second))
        with np.errstate(invalid="ignore"):
            return np.broadcast_to(np.sign(first - second), values.shape)

    signs = order(grid)
    change = np.flatnonzero(signs[:-1] * signs[1:] < 0)
    low, high, before = grid[change], grid[change + 1], signs[change]
    for _ in range(HALVINGS if change.size and grid.dtype.kind != "b" else 0):
        middle = low + (high - low) // 2 if grid.dtype.kind in "iu" else low + (high - low) / 2
        left = order(middle) == before
        low, high = np.where(left, middle, low), np.where(left, high, middle)
    return np.unique(np.concatenate([grid[signs == 0], low, high]))
