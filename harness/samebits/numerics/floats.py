"""The number line of each float format: every number gets an integer, neighbours differ by one.

A float's bits, read as an integer, grow with its magnitude. Negating those of the negative numbers gives one
monotone line on which the distance of two numbers is their distance in ulps. Both zeros lie at 0, so +0.0 and
-0.0 are 0 ulps apart (they still differ in their bits, and `bits` says so).

Source: the construction is Bruce Dawson's ("Comparing floating point numbers", 2012), for IEEE 754 binary formats;
the 8-bit formats follow the OCP 8-bit Floating Point Specification 1.0 and the `fnuz` and `e8m0` forms of ml_dtypes.
"""

from __future__ import annotations

import functools
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
_SUBBYTE = {
    "int1": 1,
    "uint1": 1,
    "int2": 2,
    "uint2": 2,
    "int4": 4,
    "uint4": 4,
    "float4_e2m1fn": 4,
    "float6_e2m3fn": 6,
    "float6_e3m2fn": 6,
}
_FLOAT0 = np.dtype([("float0", "V")])


def is_number(dtype: Any) -> bool:
    """Return whether jax can hold a dtype as numbers; `float0`, its gradient of an integer, counts without bits."""
    dtype = np.dtype(dtype)
    if dtype.kind == "c":
        return bool(dtype.itemsize <= 16)
    return bool(dtype.itemsize <= 8) and (dtype.kind in "biuf" or hasattr(ml_dtypes, dtype.name) or dtype == _FLOAT0)


def is_float(dtype: Any) -> bool:
    """Return whether a dtype is a real float, the ml_dtypes formats included."""
    return bool(np.issubdtype(np.dtype(dtype), np.floating)) or np.dtype(dtype).name.startswith(("bfloat", "float"))


def is_complex(dtype: Any) -> bool:
    """Return whether a dtype is complex."""
    return bool(np.dtype(dtype).kind == "c")


@functools.cache  # the name of a dtype is a computed property, and bits are asked for at every comparison
def width(dtype: Any) -> int:
    """Return how many bits one element has: 4 for `int4`, although a byte holds it."""
    dtype = np.dtype(dtype)
    return int(_SUBBYTE.get(dtype.name, 8 * dtype.itemsize))


@functools.cache
def has_sign(dtype: Any) -> bool:
    """Return whether a float format has a sign bit; `float8_e8m0fnu` (a power of two) has none."""
    return bool(np.dtype(dtype).name != "float8_e8m0fnu")


def digits(dtype: Any) -> int:
    """Return the binary digits of a float format's significand, the leading one included: 24 for float32."""
    return int(_finfo(dtype).nmant) + 1


def smallest(dtype: Any) -> float:
    """Return the smallest positive number of a float format; where it has subnormals, that is one of them."""
    return float(_finfo(dtype).smallest_subnormal)


def _finfo(dtype: Any) -> Any:
    return ml_dtypes.finfo(dtype)


def raw_bits(array: Array) -> Array:
    """Return the elements' bits as unsigned integers of the same shape; unused bits of a byte are cleared.

    Equivalent to `array.view(f"uint{8 * array.dtype.itemsize}")` for whole-byte dtypes.
    """
    array = np.ascontiguousarray(array).reshape(np.shape(array))
    bits = array.view(_UNSIGNED[array.dtype.itemsize])
    bits_used = width(array.dtype)
    if bits_used < 8:
        bits = np.asarray(bits & np.uint8((1 << bits_used) - 1))
    return bits


def from_bits(bits: Array, dtype: Any) -> Array:
    """Return the inverse of `raw_bits`."""
    dtype = np.dtype(dtype)
    return np.array(bits, _UNSIGNED[dtype.itemsize], order="C").view(dtype)


def ordinals(array: Array) -> NDArray[np.int64]:
    """Return each float's place on its number line (0 for both zeros, 1 for the smallest positive number).

    NaNs get a place too, which means nothing. Differences of the int64 fit: finite float64 numbers lie within +-2^63,
    subtract with `distance`.
    """
    bits = raw_bits(array)
    if not has_sign(array.dtype):
        return bits.astype(np.int64)
    places, sign = bits.astype(np.int64), np.int64(-1) << (width(array.dtype) - 1)
    if bits.dtype.itemsize == 8:
        return np.asarray(np.where(places < 0, sign - places, places))
    return np.asarray(np.where(places >= -sign, -sign - places, places))


def from_ordinals(places: NDArray[np.int64], dtype: Any) -> Array:
    """Return the float at each place of the number line; the inverse of `ordinals` (place 0 gives +0.0).

    Raises:
        ValueError: a place lies beyond the format's bits, where the pattern would wrap to another number.
    """
    places = np.asarray(places, np.int64)
    magnitude = np.abs(places).astype(np.uint64)
    if np.any(magnitude >> np.uint64(width(dtype) - has_sign(dtype))) or (not has_sign(dtype) and np.any(places < 0)):
        raise ValueError(f"places {places.min()} to {places.max()} are not all on the line of {np.dtype(dtype).name}")
    if has_sign(dtype):
        magnitude = np.where(places < 0, magnitude | np.uint64(1 << (width(dtype) - 1)), magnitude)
    return from_bits(magnitude, dtype)


def distance(left: Array, right: Array) -> NDArray[np.uint64]:
    """Count the ulps between floats, element by element; the caller has set non-finite values aside.

    Equivalent to `abs(ordinals(left) - ordinals(right))` without overflow: the difference is taken modulo 2^64
    and read as unsigned, which is exact because it is below 2^64.
    """
    a, b = ordinals(left), ordinals(right)
    low, high = np.minimum(a, b).view(np.uint64), np.maximum(a, b).view(np.uint64)
    return high - low


def isnan(array: Array) -> NDArray[np.bool_]:
    """Return where a float array is NaN, for every format."""
    with np.errstate(invalid="ignore"):  # a signalling NaN warns in some formats, although it is only looked at
        return np.asarray(np.isnan(array), bool)


def isinf(array: Array) -> NDArray[np.bool_]:
    """Return where a float array is infinite; nowhere for the formats that have no infinity."""
    with np.errstate(invalid="ignore"):
        return np.asarray(np.isinf(array), bool)


def isfinite(array: Array) -> NDArray[np.bool_]:
    """Return where a float array is neither NaN nor infinite, for every format."""
    with np.errstate(invalid="ignore"):
        return np.asarray(np.isfinite(array), bool)


def is_zero(array: Array) -> NDArray[np.bool_]:
    """Return where a float is +0.0 or -0.0; nowhere for `float8_e8m0fnu`. NaNs are set aside before."""
    return np.asarray(ordinals(array) == 0) if has_sign(array.dtype) else np.zeros(np.shape(array), bool)


def is_negative(array: Array) -> NDArray[np.bool_]:
    """Return where a float's sign bit is set, that of -0.0 included."""
    if not has_sign(array.dtype):
        return np.zeros(np.shape(array), bool)
    return np.asarray(raw_bits(array) >> (width(array.dtype) - 1) != 0)


def is_subnormal(array: Array) -> NDArray[np.bool_]:
    """Return where a float is below the smallest normal number and not zero."""
    return are_subnormal(ordinals(array), array.dtype)


def are_subnormal(places: NDArray[np.int64], dtype: Any) -> NDArray[np.bool_]:
    """Return which places of a number line are those of subnormal numbers."""
    if not has_sign(dtype):
        return np.zeros(places.shape, bool)
    far = np.abs(places)
    return np.asarray((far > 0) & (far < first_normal(dtype)), bool)


@functools.cache
def first_normal(dtype: Any) -> int:
    """Return the place of the smallest normal number of a format on its number line."""
    return int(ordinals(np.asarray(_finfo(dtype).smallest_normal, dtype)))


def show(value: Any) -> str:
    """Return one element in decimal, with enough digits to read it back."""
    array = np.asarray(value)
    if is_complex(array.dtype):
        return str(complex(value))
    number = from_bits(raw_bits(array), array.dtype)[()]  # without the unused bits, which may mislead
    if not is_float(array.dtype):
        return str(number)
    return repr(float(number)) if array.dtype.itemsize == 8 else f"{float(number):.9g}"


def hexadecimal(value: Any) -> str:
    """Return one element's bits in hex, padded to its width."""
    array = np.asarray(value).reshape(1)
    if is_complex(array.dtype):
        return f"{hexadecimal(array.real[0])}, {hexadecimal(array.imag[0])}"
    return f"0x{int(raw_bits(array)[0]):0{(width(array.dtype) + 3) // 4}x}"


def parts(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array of real numbers: of complex ones, the real and the imaginary parts along a new last axis."""
    return np.stack([array.real, array.imag], -1) if is_complex(array.dtype) else array
