"""XLA's element types as dtypes, and its literals as arrays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np

_DTYPES: dict[int, Any] = {
    1: np.bool_, 2: np.int8, 3: np.int16, 4: np.int32, 5: np.int64, 6: np.uint8, 7: np.uint16, 8: np.uint32,
    9: np.uint64, 10: np.float16, 11: np.float32, 12: np.float64, 15: np.complex64, 16: ml_dtypes.bfloat16,
    18: np.complex128, 19: ml_dtypes.float8_e5m2, 20: ml_dtypes.float8_e4m3fn, 21: ml_dtypes.int4,
    22: ml_dtypes.uint4, 23: ml_dtypes.float8_e4m3b11fnuz, 24: ml_dtypes.float8_e5m2fnuz,
    25: ml_dtypes.float8_e4m3fnuz, 26: ml_dtypes.int2, 27: ml_dtypes.uint2, 28: ml_dtypes.float8_e4m3,
    29: ml_dtypes.float8_e3m4, 32: ml_dtypes.float4_e2m1fn, 33: ml_dtypes.float8_e8m0fnu,
}  # fmt: skip
"""By the number of XLA's `PrimitiveType`."""

_LISTS = {1: "preds", 4: "s32s", 5: "s64s", 8: "u32s", 9: "u64s", 11: "f32s", 12: "f64s", 15: "c64s", 18: "c128s"}
"""The field of a literal that lists its elements as numbers; complex ones are two each."""

_BYTES = {
    2: "s8s", 3: "s16s", 6: "u8s", 7: "u16s", 10: "f16s", 16: "bf16s", 19: "f8e5m2s", 20: "f8e4m3fns", 21: "s4s",
    22: "u4s", 23: "f8e4m3b11fnuzs", 24: "f8e5m2fnuzs", 25: "f8e4m3fnuzs", 26: "s2s", 27: "u2s", 28: "f8e4m3s",
    29: "f8e3m4s", 32: "f4e2m1fns", 33: "f8e8m0fnus",
}  # fmt: skip
"""The field of a literal that has its elements as bytes; each element of less than a byte has one of its own."""


_NARROW = (21, 22, 26, 27)
"""Integers of less than a byte."""


def leaves(shape: Any) -> Iterator[Any]:
    """Yield a shape, or those that a tuple's shape is of."""
    if shape.tuple_shapes:
        for part in shape.tuple_shapes:
            yield from leaves(part)
    else:
        yield shape


def dtype_of(shape: Any) -> np.dtype[Any] | None:
    """Return the dtype of a shape; None where JAX has none for it."""
    kind = _DTYPES.get(shape.element_type)
    return None if kind is None else np.dtype(kind)


def literal_array(literal: Any) -> np.ndarray[Any, Any] | None:
    """Return a literal as an array; None where its element type is not known."""
    kind, dtype = literal.shape.element_type, dtype_of(literal.shape)
    dims = tuple(literal.shape.dimensions)
    if dtype is None:
        return None
    if kind in _LISTS:
        numbers = np.array(getattr(literal, _LISTS[kind]))
        if dtype.kind == "c":
            numbers = numbers.astype(np.float64).view(np.complex128)  # a sum would make NaN of an infinite part
        flat = numbers.astype(dtype)
    elif kind in _BYTES:
        packed: np.ndarray[Any, Any] = np.frombuffer(getattr(literal, _BYTES[kind]), np.uint8)
        if packed.size != np.prod(dims, dtype=np.int64) * dtype.itemsize:
            return None
        if kind in _NARROW:  # the high bits are not said to be anything
            high = 8 - ml_dtypes.iinfo(dtype).bits
            packed = ((packed << high).view(np.int8) >> high) if kind in (21, 26) else packed << high >> high
        flat = packed.astype(dtype) if kind in _NARROW else packed.view(dtype)
    else:
        return None
    order = tuple(reversed(literal.shape.layout.minor_to_major)) or tuple(range(len(dims)))
    return flat.reshape([dims[axis] for axis in order]).transpose(np.argsort(order)) if dims else flat.reshape(())
