"""Numbers that only fill masked places, such as -1e30: they say nothing of how small a difference of others is."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from samebits.numerics.floats import Array

FAR = 2.0**20
"""How many times larger than one, and than all elements that differ, is one that only fills a place."""

LEAST = 2.0**-20
"""Beside a fill, the largest of the other numbers counts as at least this: what cancels there leaves noise."""

MOST = 2
"""How many different numbers fill places at most."""


def fills(first: Array, second: Array, considered: Array) -> NDArray[np.bool_]:
    """Tell which elements fill masked places: the same number on both sides, far above one and all that differs.

    Numbers of many values are not a fill, however large; and without a difference there is none.
    """
    size = np.abs(np.where(considered, second, 0))
    largest = float(np.max(size, where=considered & (first != second), initial=0))
    fill = np.asarray(considered & (first == second) & (size > FAR * max(largest, 1)), bool)
    few = largest > 0 and len(np.unique(first[fill])) <= MOST
    return fill if few else np.zeros(fill.shape, bool)
