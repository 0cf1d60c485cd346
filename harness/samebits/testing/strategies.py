"""Hypothesis strategies for the shapes, axes, meshes and values that break implementations; for users' own tests.

Needs the extra `test` (`pip install samebits[test]`).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from samebits.numerics import floats
from samebits.programs.inputs import Array, dtype_of, special_values
from samebits.schema.case import SPECIALS
from samebits.schema.meshes import MeshSpec


def shapes(*, min_rank: int = 1, max_rank: int = 5, max_side: int = 6) -> SearchStrategy[tuple[int, ...]]:
    """Draw shapes of small arrays.

    Args:
        min_rank: the least number of dimensions; 1 by default.
        max_rank: the largest number of dimensions; 5 by default.
        max_side: the largest size of a dimension, in elements; 1 is the smallest.
    """
    return st.lists(st.integers(1, max_side), min_size=min_rank, max_size=max_rank).map(tuple)


def axes(rank: int) -> SearchStrategy[int]:
    """Return a dimension of an array of this rank, counted from the front or, negative, from the back.

    Args:
        rank: how many dimensions the array has.
    """
    return st.integers(-rank, rank - 1)


@st.composite
def shapes_with_axis(
    draw: st.DrawFn, *, multiple_of: int = 1, max_groups: int = 3, max_rank: int = 5, max_side: int = 4
) -> tuple[tuple[int, ...], int]:
    """Return a shape and one of its axes (front or back) whose size is a multiple of a number, such as `2 * cp`.

    Args:
        draw: given by hypothesis.
        multiple_of: what the axis divides by; 1 by default.
        max_groups: the largest multiple.
        max_rank: the largest number of dimensions.
        max_side: the largest size of the other dimensions, in elements.
    """
    shape = list(draw(shapes(max_rank=max_rank, max_side=max_side)))
    axis = draw(axes(len(shape)))
    shape[axis] = multiple_of * draw(st.integers(1, max_groups))
    return tuple(shape), axis


@st.composite
def meshes(draw: st.DrawFn, names: tuple[str, ...], *, max_devices: int = 8) -> MeshSpec:
    """Draw meshes over some of the named axes that fit on a number of devices.

    Args:
        draw: given by hypothesis.
        names: axis names; any identifiers.
        max_devices: how many devices there are; 8 by default.
    """
    chosen = draw(st.lists(st.sampled_from(names), min_size=1, max_size=len(names), unique=True))
    left, parts = max_devices, []
    for name in chosen:
        size = draw(st.integers(1, left))
        parts.append((name, size))
        left //= size
    return MeshSpec(axes=tuple(parts))


@st.composite
def arrays(draw: st.DrawFn, dtype: Any, shape: tuple[int, ...], *, special: tuple[str, ...] = SPECIALS) -> Array:
    """Draw arrays of any bit pattern that the dtype has, special values drawn often.

    Args:
        draw: given by hypothesis.
        dtype: a dtype or its name, `bfloat16` and the 8-bit floats included.
        shape: the array's shape.
        special: which special values to plant; NaNs and infinities appear only if they are among these. All by
            default.
    """
    kind = dtype_of(dtype) if isinstance(dtype, str) else np.dtype(dtype)
    count = math.prod(shape)
    if kind.kind == "b":
        return np.array(draw(st.lists(st.booleans(), min_size=count, max_size=count)), bool).reshape(shape)
    planted = special_values(kind, special)
    bits = st.integers(0, (1 << floats.width(kind)) - 1)
    if planted.size:
        bits = bits | st.sampled_from([int(b) for b in floats.raw_bits(planted)])
    array = floats.from_bits(np.array(draw(st.lists(bits, min_size=count, max_size=count)), np.uint64), kind)
    if floats.is_float(kind):
        unwanted = np.zeros(array.shape, bool)
        if not {"nan", "nan_payload"} & set(special):
            unwanted |= floats.isnan(array)
        if not {"inf", "-inf"} & set(special):
            unwanted |= floats.isinf(array)
        array[unwanted] = 1
    return array.reshape(shape)
