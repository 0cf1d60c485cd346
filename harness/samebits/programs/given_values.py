"""Arrays that a caller has already, as inputs: the array itself, and variations of it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from samebits.errors import DeclarationError
from samebits.numerics import floats
from samebits.schema.values import Given

Array = NDArray[Any]

SPREAD = 0.25
"""By how much of its value an element of a variation may differ from the array that was given."""

FROM_ZERO = 0.1
"""The standard deviation of a variation of zeros."""


def given_array(values: Given, shape: tuple[int, ...], dtype: np.dtype[Any], where: str) -> Array:
    """The array itself, in the dtype of the argument; for a case under `vmap`, as often as there are copies.

    Raises:
        DeclarationError: its shape is not the declared one.
    """
    array = np.array(values.array, dtype)
    if values.copies:
        array = np.stack([array] * values.copies)
    if array.shape != shape:
        raise DeclarationError(f"{where}: the given array has shape {array.shape}; expected {shape}")
    return array


def variation(array: Array, rng: np.random.Generator) -> Array:
    """Another array of the same kind; see `Given`.

    A check of given arrays alone would miss what their values hide: a scale of ones that is not applied, a bias of
    zeros that is not added.

    Args:
        array: of any shape and dtype.
        rng: the source of the differences.

    Returns:
        An array of the same shape and dtype; integers and bools are the same.
    """
    if not (floats.is_float(array.dtype) or floats.is_complex(array.dtype)) or not floats.has_sign(array.dtype):
        return array
    wide = array.astype(np.complex128 if floats.is_complex(array.dtype) else np.float64)
    if not np.any(wide):
        return (FROM_ZERO * rng.standard_normal(array.shape)).astype(array.dtype)
    with np.errstate(all="ignore"):  # of NaNs and infinities, which stay as they are
        return np.asarray((wide * (1 + SPREAD * rng.uniform(-1, 1, array.shape))).astype(array.dtype))
