"""Where and how far the two sides of a leaf differ, small enough to be drawn: a heat map, a histogram, a window.

A leaf that fails is shown in more detail (32 x 32 bins, 3 x 5 values) than one whose difference is accepted (8 x 8
bins, 3 values): a document has many of these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True, slots=True)
class HeatMap:
    """How many elements differ where, over the first two axes that are longer than 1, all inputs together.

    Args:
        edges: by the number of such an axis, the elements at which the parts of devices begin, and the axis's length:
            `0 16 32` where two devices have half of 32 each. The rows' axis comes before the columns'; an array with
            one such axis has one, a single element none.
        counts: a line for each row, with the counts of its columns separated by blanks; `0*31` stands for 31 zeros in
            a row. An axis of length `n` that is counted in `k` rows or columns has its element `i` in number
            `i * k // n`. Of one axis there is a single line.
    """

    edges: Mapping[str, str]
    counts: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Window:
    """The values around the witness, along the last two axes that are longer than 1, on one input.

    Args:
        input: on which the sides gave these values.
        elements: which ones, as an index of the array, such as `[0, 3:6, 10:15]`; the ranges are the axes of the rows
            and of the columns, and an array with one such axis has one range.
        reference, optimized: the values in decimal: a line for each row, with values separated by blanks.
        reference_hex, optimized_hex: the same in hex.
        ideal: the values of the reference's formula in float64, where they were computed; else None.
    """

    input: str
    elements: str
    reference: str
    optimized: str
    reference_hex: str
    optimized_hex: str
    ideal: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Picture:
    """The elements of a leaf whose bits differ; counts are over all inputs.

    Args:
        heat: where they are.
        ulps: how many are how far apart: `2^k` for distances of `2^k` to `2^(k+1) - 1` ulps (of integers, their
            difference), `0` for zeros of other sign, `none` where one side is infinite or NaN.
        inputs: of a leaf that fails, how many elements differ on each input.
        devices: of a leaf that fails, by the numbers of the devices that have a part of the array, how many differ in
            it; empty where every device has the whole, or where there are more than 128 parts.
        window: the values around the witness; None without a witness.
    """

    heat: HeatMap
    ulps: Mapping[str, int]
    inputs: Mapping[str, int] = field(default_factory=dict)
    devices: Mapping[str, int] = field(default_factory=dict)
    window: Window | None = None


NOT_READ, MAY, MUST_NOT = ".", "o", "x"


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadMatrix:
    """Which groups of inputs each group of outputs may read, such as positions.

    Args:
        cells: a line for each group of outputs, with the groups of inputs as runs: `o3 x1 .4` is three that are read,
            one that is read and must not be, and four that are not read.
        place: the equation by which what must not be read gets in, with its line; None where nothing does.
    """

    cells: str
    place: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class MagnitudeRow:
    """The errors of both sides at one magnitude of the inputs, relative to each element; the largest of a leaf.

    Args:
        size: the largest input there.
        reference, optimized: the errors against float64; None where a side is infinite or NaN and should not be.
    """

    size: float
    reference: float | None
    optimized: float | None
