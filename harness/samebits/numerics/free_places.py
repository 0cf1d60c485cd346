"""Which elements of an array may change places with each other, as those of a random draw.

Of an array with many equal elements, such as zeros, only those that occur once may. In arrays that look structured none
may: those that have few such elements, with infinities, sorted, triangular or symmetric ones, and those whose rows add
up to one number.
"""

from __future__ import annotations

import numpy as np

from samebits.numerics.floats import Array


def free_places(array: Array) -> Array:
    """The places of a flat array whose elements may change places with each other, as those of a random draw."""
    values = np.asarray(array, np.float64)
    nowhere = np.zeros(0, np.int64)
    if values.size < 2 or not np.isfinite(values).all() or _is_structured(values):
        return nowhere
    _, first, counts = np.unique(values, return_index=True, return_counts=True)
    few = max(1, values.size // 4)
    if counts.max() <= few:
        return np.arange(values.size)
    once = np.sort(first[counts == 1])
    return once if once.size > few else nowhere


def _is_structured(values: Array) -> bool:
    """Whether elements are sorted or symmetric, or have sums that are one number."""
    for axis in range(values.ndim):
        if values.shape[axis] > 2:
            steps = np.diff(values, axis=axis)
            if np.all(steps >= 0) or np.all(steps <= 0):
                return True
        if values.shape[axis] > 2 and (_even(values.sum(axis)) or _even(np.square(values).sum(axis))):
            return True
    square = values.ndim >= 2 and values.shape[-1] == values.shape[-2] > 1
    return square and np.allclose(values, np.swapaxes(values, -1, -2), rtol=1e-2)


def _even(sums: Array) -> bool:
    """Whether several numbers are one, up to the rounding of bfloat16."""
    return bool(sums.size > 1 and np.ptp(sums) <= 1e-2 * np.max(np.abs(sums)))
