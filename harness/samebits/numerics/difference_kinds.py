"""The classes of difference between two arrays of one dtype and shape, and how far their elements are apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from samebits.numerics import floats
from samebits.numerics.floats import Array
from samebits.schema.difference import Farthest

Kind = Literal[
    "structure",
    "dtype",
    "shape",
    "NaN vs number",
    "overflow to infinity",
    "other",
    "rounding",
    "subnormal flushed",
    "sign of zero",
    "NaN payload",
    "weak type",
]
KINDS: tuple[Kind, ...] = get_args(Kind)
"""The classes of difference, the gravest first. A weak type comes last because the bits are still compared."""

DECIDING: tuple[Kind, ...] = ("NaN vs number", "overflow to infinity", "NaN payload", *KINDS)
"""Which class a witness is of: first those of which one element decides the verdict, then in the order of `KINDS`."""


def across(far: Mapping[Kind, int], pairs: Mapping[Kind, tuple[Array, Array]]) -> dict[Kind, Farthest]:
    """Say by class how the two values that are farthest apart lie to 0, where that makes their distance large.

    Args:
        far: by class, their distance in ulps.
        pairs: by class, the two values as arrays of one element.
    """
    lies: dict[Kind, Farthest] = {}
    for kind, (left, right) in pairs.items():
        if not floats.is_float(left.dtype):
            continue
        if floats.is_zero(left)[0] != floats.is_zero(right)[0]:
            lies[kind] = "one side is 0"
        elif floats.is_negative(left)[0] != floats.is_negative(right)[0] and far[kind]:
            lies[kind] = "opposite signs"
    return lies


def differing(reference: Array, optimized: Array) -> tuple[Array, Array, Array]:
    """Return which elements of two arrays of one dtype and shape differ in their bits, and how far these are apart.

    Returns:
        A mask; then, of the elements that differ, the distances in ulps (of integers, their differences), and which of
        these elements have a distance, both sides being finite.
    """
    if reference.dtype.itemsize == 0:
        return np.zeros(reference.shape, bool), np.zeros(0, np.uint64), np.zeros(0, bool)
    differs = np.asarray(element_bits(reference) != element_bits(optimized))
    _, ulps, finite = classified(reference[differs], optimized[differs])
    return differs, ulps, finite


def classified(a: Array, b: Array) -> tuple[Array, Array, Array]:
    """Return the class, the distance in ulps, and whether it has one, of each pair of differing elements."""
    parts = [(a.real, b.real), (a.imag, b.imag)] if floats.is_complex(a.dtype) else [(a, b)]
    classes = [_classify(left, right) for left, right in parts]
    # Of the two parts of a complex element the graver gives its class.
    codes = np.min([codes for codes, _, _ in classes], axis=0)
    return codes, np.max([ulps for _, ulps, _ in classes], axis=0), np.any([finite for _, _, finite in classes], axis=0)


def element_bits(array: Array) -> Array:
    """Return something that differs exactly where the elements' bits differ, one entry per element."""
    if floats.is_complex(array.dtype):
        half = np.uint32 if array.dtype.itemsize == 8 else np.uint64
        return np.ascontiguousarray(array).reshape(array.shape).view(np.dtype([("re", half), ("im", half)]))
    return floats.raw_bits(array)


def _classify(a: Array, b: Array) -> tuple[Array, Array, Array]:
    """Return the class of each pair of elements as its place in `KINDS`, its distance in ulps, and whether it has one.

    Equal elements (a part of a complex number) get a place past the last. A format without infinity overflows to
    NaN, so there that fault is "NaN vs number".
    """
    if not floats.is_float(a.dtype):
        wide = np.uint64 if a.dtype == np.uint64 else np.int64
        gaps = _gaps(a.astype(wide), b.astype(wide))
        return np.full(a.size, KINDS.index("other")), gaps, np.ones(a.size, bool)
    places, bits = [floats.ordinals(a), floats.ordinals(b)], [floats.raw_bits(a), floats.raw_bits(b)]
    finite = floats.isfinite(a) & floats.isfinite(b)
    ulps, ordinary = _gaps(*places), bool(finite.all())
    if not ordinary:
        ulps = np.where(finite, ulps, np.uint64(0))
    codes = np.where(ulps <= _rounding_limit(a.dtype), KINDS.index("rounding"), KINDS.index("other"))
    normal = floats.first_normal(a.dtype)
    if not ordinary or min(int(np.abs(place).min(initial=normal)) for place in places) < normal:
        codes[~finite | (floats.is_negative(a) != floats.is_negative(b))] = KINDS.index("other")
        nan_a, nan_b = floats.isnan(a), floats.isnan(b)
        inf_a, inf_b = floats.isinf(a), floats.isinf(b)
        zero_a, zero_b = ((place == 0) & finite & floats.has_sign(a.dtype) for place in places)
        small_a, small_b = (floats.are_subnormal(place, a.dtype) for place in places)
        special: tuple[tuple[Kind, NDArray[np.bool_]], ...] = (
            ("NaN payload", nan_a & nan_b),
            ("NaN vs number", nan_a ^ nan_b),
            ("overflow to infinity", inf_a ^ inf_b),
            ("sign of zero", zero_a & zero_b),
            ("subnormal flushed", (zero_a & small_b) | (zero_b & small_a)),
        )
        for kind, where in reversed(special):
            codes[where] = KINDS.index(kind)
    codes[bits[0] == bits[1]] = len(KINDS)
    return codes, ulps, finite


def _gaps(x: Array, y: Array) -> Array:
    """Return how far integers are apart, as unsigned numbers: modulo 2^64 no difference overflows."""
    gaps: Array = np.maximum(x, y).view(np.uint64) - np.minimum(x, y).view(np.uint64)
    return gaps


def _rounding_limit(dtype: Any) -> int:
    """Return up to how many ulps a difference is called rounding: half of the significand's digits still agree.

    A name for the report only: whether a difference *is* rounding is decided in `verdict`, by evidence.
    """
    return 1 << (floats.digits(dtype) // 2)
