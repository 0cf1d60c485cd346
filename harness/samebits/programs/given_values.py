"""Arrays that a caller has already, as inputs: the array itself, and variations of it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from samebits.errors import DeclarationError
from samebits.numerics import floats
from samebits.numerics.by_content import by_content
from samebits.numerics.free_places import free_places
from samebits.schema.values import Given

Array = NDArray[Any]

SPREAD = 0.25
"""By how much of its value an element of a variation may differ from the array that was given."""

FROM_ZERO = 0.1
"""The standard deviation of a variation of zeros."""

UNLIKE = 6.0
"""From how many standard errors on the elements of a slice are unlike those of the array, in mean or in magnitude."""


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


def variation(array: Array, rng: np.random.Generator, *, nonnegative: bool = False) -> Array:
    """Another array of the same kind; see `Given`.

    A check of given arrays alone would miss what their values hide: a scale of ones that is not applied, a bias of
    zeros that is not added.

    Args:
        array: of any shape and dtype.
        rng: the source of the differences.
        nonnegative: what zeros become, as those of a second moment must stay; else they get both signs.

    Returns:
        An array of the same shape and dtype; integers and bools are the same.
    """
    if not _is_varied(array):
        return array
    wide = array.astype(np.complex128 if floats.is_complex(array.dtype) else np.float64)
    if not np.any(wide):
        drawn = FROM_ZERO * rng.standard_normal(array.shape)
        return (np.abs(drawn) if nonnegative else drawn).astype(array.dtype)
    with np.errstate(all="ignore"):  # of NaNs and infinities, which stay as they are
        return np.asarray((wide * (1 + SPREAD * rng.uniform(-1, 1, array.shape))).astype(array.dtype))


def redrawn(array: Array, rng: np.random.Generator, copies: int = 0) -> Array:
    """What a further draw is a variation of: the array, its elements in another order.

    Sums that nearly cancel in the array nearly cancel in each of its variations too, so that variations alone are not
    independent draws of how accurate a program is.

    Args:
        array: of any shape and dtype.
        rng: the source of the order.
        copies: how many copies are stacked along the leading axis, each of which gets an order of its own; 0 for none.

    Returns:
        An array of the same shape and dtype. What looks structured keeps its places, and so do integers and bools. The
        slices of an axis keep their elements where these are of different means or magnitudes.
    """
    if copies:
        return np.stack([redrawn(part, rng) for part in array])
    places, slices = _movable(array)
    if not places.size:
        return array
    source = places[np.lexsort((rng.permutation(places.size), slices))]
    flat = array.reshape(-1).copy()
    flat[places[np.argsort(slices, kind="stable")]] = flat[source]
    return np.asarray(flat.reshape(array.shape))


def keeps_places(values: Given) -> bool:
    """Whether the further draws of a given array depend on each other: some of its floats keep their places.

    Args:
        values: the array.
    """
    array = np.asarray(values.array)
    if not _is_varied(array) or not np.any(array):  # zeros are drawn anew
        return False
    places, slices = _movable(array)
    return not places.size or bool(np.any(slices))


def _is_varied(array: Array) -> bool:
    return (floats.is_float(array.dtype) or floats.is_complex(array.dtype)) and floats.has_sign(array.dtype)


@by_content
def _movable(array: Array) -> tuple[Array, Array]:
    """The places whose elements may change places with each other, and which slice each belongs to."""
    nowhere = np.zeros(0, np.int64), np.zeros(0, np.int64)
    if not _is_varied(array) or array.size < 2:
        return nowhere
    real = np.asarray(array.real if floats.is_complex(array.dtype) else array, np.float64)
    places = free_places(real)
    if not places.size or _has_diagonal(real):
        return nowhere
    slices = np.zeros(array.shape, np.int64)
    for axis, length in enumerate(array.shape):
        if _differ(np.moveaxis(real, axis, 0).reshape(length, -1), real):
            slices = slices * length + np.indices(array.shape, sparse=True)[axis]
    slices = slices.reshape(-1)[places]
    _, counts = np.unique(slices, return_counts=True)
    return (places, slices) if counts.max() > 1 else nowhere


def _has_diagonal(real: Array) -> bool:
    """Whether matrices have a diagonal of other numbers, as those that are inverted mostly do."""
    if real.ndim < 2 or real.shape[-1] != real.shape[-2]:
        return False
    return _differ(np.diagonal(real, axis1=-2, axis2=-1).reshape(1, -1), real)


def _differ(slices: Array, real: Array) -> bool:
    """Whether slices are unlike the array that they are of, in mean or in magnitude, by more than chance."""
    for values, whole in ((slices, real), (np.abs(slices), np.abs(real))):
        error = whole.std() / np.sqrt(max(values.shape[1], 1))
        if np.any(np.abs(values.mean(1) - whole.mean()) > UNLIKE * error):
            return True
    return False
