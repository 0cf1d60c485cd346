"""The arrays that are measured of one leaf on one input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from numpy.typing import NDArray

from samebits.interpret.rounding_error.value import NarrowSum

Array = NDArray[Any]


class LeafSample(NamedTuple):
    """One leaf on one input: both sides as they are, the oracle, and the variant in float64; all of one shape.

    The bounds are of the operations of each side, where they were interpreted. `noise` gives how far float64 takes
    two equal formulas apart, None where that is not known. `floor` is an error of the reference that counts as none,
    where the oracle is zero except for rounding. `narrow_sums` are the longest of either side in a
    narrow type.
    """

    reference: Array
    variant: Array
    oracle: Array
    wide: Array
    bound: Array | None = None
    own_bound: Array | None = None
    noise: Callable[[], Array | None] | None = None
    floor: Array | None = None
    narrow_sums: tuple[NarrowSum, NarrowSum] | None = None
