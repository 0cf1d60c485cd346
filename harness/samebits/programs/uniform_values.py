"""Floats of a stated range: `Arg(values=Uniform(low=0, high=1))`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samebits.errors import DeclarationError
from samebits.numerics import floats
from samebits.schema.values import Uniform

Array = NDArray[Any]


def uniform_array(
    values: Uniform, rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any], where: str
) -> Array:
    """Floats of `[low, high]`, all different where the dtype has as many in the range.

    Args:
        values: the range.
        rng, shape, dtype: of the array.
        where: case and argument, for errors.

    Raises:
        DeclarationError: the dtype is not one of real floats, or the range holds no two of its numbers.
    """
    if not floats.is_float(dtype):
        raise DeclarationError(
            f"{where} is {dtype.name}, and Uniform draws floats; give Integers(low=..., high=...), or another dtype"
        )
    with np.errstate(over="ignore"):
        ends = np.array([values.low, values.high]).astype(dtype)
    numbers = ends.astype(np.float64)
    if not np.isfinite(numbers).all() or numbers[0] == numbers[1] or (values.low < 0 and not floats.has_sign(dtype)):
        raise DeclarationError(
            f"{where}: {dtype.name} has no two numbers from {values.low:g} to {values.high:g}; give another range"
        )
    count = math.prod(shape)
    array = np.clip(rng.uniform(values.low, values.high, count), *numbers).astype(dtype)
    return _distinct(array, ends).reshape(shape) if floats.has_sign(dtype) else array.reshape(shape)


def _distinct(array: Array, ends: Array) -> Array:
    """Without repeats, each moved to the next free number of the range; as it is where the range has too few."""
    first, last = (int(place) for place in floats.ordinals(ends))
    count = array.size
    if last - first + 1 < count:
        return array
    order, steps = np.argsort(floats.ordinals(array), kind="stable"), np.arange(count)
    places = np.maximum.accumulate(floats.ordinals(array)[order] - steps) + steps
    places = np.minimum(places, last - (count - 1 - steps))
    array[order] = floats.from_ordinals(places, array.dtype)
    return array
