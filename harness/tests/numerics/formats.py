"""Every dtype that jax holds on CPU, and arrays of all or of chosen bit patterns, made without the code under test."""

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

EIGHT_BITS_OR_LESS = (
    "float8_e3m4",
    "float8_e4m3",
    "float8_e4m3b11fnuz",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
    "float6_e2m3fn",
    "float6_e3m2fn",
    "float4_e2m1fn",
)
"""The float formats whose patterns all fit into one table."""
SMALL_FLOATS = ("float16", "bfloat16", *EIGHT_BITS_OR_LESS)
FLOATS = ("float64", "float32", *SMALL_FLOATS)
SUBBYTE_INTEGERS = ("int1", "uint1", "int2", "uint2", "int4", "uint4")
INTEGERS = (*SUBBYTE_INTEGERS, "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
COMPLEX = ("complex64", "complex128")
DTYPES = (*FLOATS, *INTEGERS, "bool", *COMPLEX)
NO_ZERO = "float8_e8m0fnu"
NEEDS_NEWER_JAX = ("float6_e2m3fn", "float6_e3m2fn")
"""Formats that the jax of Python 3.11 cannot hold yet."""


def dtype_of(name: str) -> np.dtype[Any]:
    """A dtype by name, those of ml_dtypes included."""
    return np.dtype(getattr(ml_dtypes, name, name))


def bits_of(name: str) -> int:
    """The bits of one element, from the makers of the format."""
    dtype = dtype_of(name)
    if name == "bool":
        return 8
    if name in COMPLEX:
        return 8 * dtype.itemsize
    described: Any = ml_dtypes.iinfo if name in INTEGERS else ml_dtypes.finfo
    return int(described(dtype).bits)


def smallest_normal(name: str) -> float:
    """The smallest normal number of a float format, from its makers."""
    described: Any = ml_dtypes.finfo
    return float(described(dtype_of(name)).smallest_normal)


def from_patterns(patterns: Any, name: str) -> Array:
    """An array of the given bit patterns."""
    dtype = dtype_of(name)
    return np.asarray(patterns, f"uint{8 * dtype.itemsize}").view(dtype)


def all_patterns(name: str) -> Array:
    """Every pattern of a float format of at most 16 bits, in the order of the patterns."""
    return from_patterns(np.arange(1 << bits_of(name)), name)


def exact(array: Array) -> NDArray[np.float64]:
    """The values in float64, which holds all of them exactly."""
    with np.errstate(invalid="ignore"):  # signalling NaNs
        return np.asarray(array.astype(np.float64))


def random_bytes(name: str, shape: tuple[int, ...], seed: int = 0) -> Array:
    """An array of arbitrary bits, NaNs and unused bits of sub-byte dtypes included; a bool is 0 or 1."""
    dtype = dtype_of(name)
    count = int(np.prod(shape)) * dtype.itemsize
    drawn = np.random.default_rng(seed).integers(0, 2 if name == "bool" else 256, count, np.uint8)
    return drawn.view(dtype).reshape(shape)
