"""One planted fault for each rule of the comparison: what each side returns, and what must be reported.

A row is used twice: `test_bits` checks that the comparison sees it, `test_bits_mutants` that it would be missed
by a comparison without the rule.
"""

from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.numerics import formats

f32 = np.float32
Point = namedtuple("Point", "x y")


@dataclass(frozen=True)
class Planted:
    """What both sides return and what `compare` must say of the first leaf that differs."""

    reference: Any
    optimized: Any
    kind: str
    mismatches: int = 1
    max_ulp: int | None = None
    index: tuple[int, ...] | None = None
    detail: str | None = None


def _array(*values: Any, dtype: Any = f32) -> Any:
    return np.array(values, dtype)


def _bits(*patterns: int, dtype: str = "float32") -> Any:
    return formats.from_patterns(patterns, dtype)


class Weak:
    """A jax array's promise in NumPy's clothes: an array that says it is weakly typed."""

    def __init__(self, *values: Any) -> None:
        self.array = _array(*values)
        self.weak_type = True

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.array


one = _array(1)
TINY = float(np.finfo(f32).smallest_subnormal)
NEXT = float(np.nextafter(f32(1), f32(2)))
LARGEST = float(np.finfo(f32).max)
NAN, OTHER_NAN, NEGATIVE_NAN = 0x7FC00000, 0x7FC00001, 0xFFC00000

PLANTED: dict[str, Planted] = {
    # structure
    "a leaf more": Planted((one,), (one, one), "structure", detail="reference=(*), variant=(*, *)"),
    "tuple for list": Planted([one], (one,), "structure", detail="reference=[*], variant=(*)"),
    "another key": Planted({"a": one}, {"b": one}, "structure", detail="reference={'a': *}, variant={'b': *}"),
    "None for a leaf": Planted((one, one), (one, None), "structure", detail="reference=(*, *), variant=(*, None)"),
    "leaf for a tuple": Planted((one,), one, "structure", detail="reference=(*), variant=*"),
    "named tuple for tuple": Planted(
        (one, one), Point(one, one), "structure", detail="reference=(*, *), variant=Point(*, *)"
    ),
    "another order of keys": Planted(
        OrderedDict(a=one, b=one),
        OrderedDict(b=one, a=one),
        "structure",
        detail="reference=OrderedDict{'a': *, 'b': *}, variant=OrderedDict{'b': *, 'a': *}",
    ),
    # what an array is, besides its bits
    "dtype": Planted(
        _array(1, 2), _array(1, 2, dtype=np.float64), "dtype", mismatches=2, detail="reference=float32, variant=float64"
    ),
    "dtype of equal bits": Planted(
        _array(0, dtype=np.int32), _array(0, dtype=np.uint32), "dtype", detail="reference=int32, variant=uint32"
    ),
    "weak type": Planted(
        _array(1, 2), Weak(1, 2), "weak type", mismatches=2, max_ulp=0, detail="reference=False, variant=True"
    ),
    "value behind a weak type": Planted(
        _array(1, 2),
        Weak(1, 9),
        "other",
        mismatches=2,
        max_ulp=17825792,
        index=(1,),
        detail="weak type: reference=False, variant=True",
    ),
    "shape": Planted(
        np.zeros((2, 3), f32), np.zeros((3, 2), f32), "shape", mismatches=6, detail="reference=(2, 3), variant=(3, 2)"
    ),
    "0-d for one element": Planted(f32(1), one, "shape", detail="reference=(), variant=(1,)"),
    "shape of nothing": Planted(
        np.zeros((0, 3), f32), np.zeros((3, 0), f32), "shape", detail="reference=(0, 3), variant=(3, 0)"
    ),
    "dtype and shape": Planted(
        np.zeros(2, f32),
        np.zeros(3, np.int8),
        "dtype",
        mismatches=2,
        detail="reference=float32, variant=int8; shape: reference=(2,), variant=(3,)",
    ),
    # classes of values
    "sign of zero": Planted(_array(1, -0.0), _array(1, 0.0), "sign of zero", max_ulp=0, index=(1,)),
    "sign of zero, 0-d": Planted(f32(-0.0), f32(0.0), "sign of zero", max_ulp=0, index=()),
    "NaN payload": Planted(_bits(NAN), _bits(OTHER_NAN), "NaN payload", index=(0,)),
    "sign of NaN": Planted(_bits(NAN), _bits(NEGATIVE_NAN), "NaN payload", index=(0,)),
    "NaN beside rounding": Planted(
        _array(1, 1, 1, 1), _array(NEXT, NEXT, np.nan, NEXT), "NaN vs number", mismatches=4, max_ulp=1, index=(2,)
    ),
    "NaN payload beside rounding": Planted(
        np.concatenate([_array(1, 1), _bits(NAN)]),
        np.concatenate([_array(NEXT, NEXT), _bits(OTHER_NAN)]),
        "rounding",
        mismatches=3,
        max_ulp=1,
        index=(2,),
    ),
    "a wrong value beside rounding": Planted(
        _array(1, 1, 1, 1), _array(NEXT, 2, NEXT, NEXT), "other", mismatches=4, max_ulp=8388608, index=(1,)
    ),
    "NaN for a number": Planted(_array(1), _array(np.nan), "NaN vs number", index=(0,)),
    "NaN for infinity": Planted(_array(np.inf), _array(np.nan), "NaN vs number", index=(0,)),
    "overflow": Planted(_array(LARGEST), _array(np.inf), "overflow to infinity", index=(0,)),
    "overflow where there is no infinity": Planted(
        _array(448, dtype=formats.dtype_of("float8_e4m3fn")),
        _bits(0x7F, dtype="float8_e4m3fn"),
        "NaN vs number",
        index=(0,),
    ),
    "infinity of the other sign": Planted(_array(np.inf), _array(-np.inf), "other", index=(0,)),
    "subnormal flushed": Planted(_array(7 * TINY), _array(0.0), "subnormal flushed", max_ulp=7, index=(0,)),
    "negative subnormal flushed": Planted(_array(-TINY), _array(0.0), "subnormal flushed", max_ulp=1, index=(0,)),
    "rounding": Planted(_bits(0x3F800000), _bits(0x3F800000 + 4096), "rounding", max_ulp=4096, index=(0,)),
    "just not rounding": Planted(_bits(0x3F800000), _bits(0x3F800000 + 4097), "other", max_ulp=4097, index=(0,)),
    "across zero": Planted(_array(TINY), _array(-TINY), "other", max_ulp=2, index=(0,)),
    "wrong value": Planted(_array(1), _array(2), "other", max_ulp=1 << 23, index=(0,)),
    "two values": Planted(
        _array([1, 2], [3, 4]), _array([1, 5], [6, 4]), "other", mismatches=2, max_ulp=10485760, index=(0, 1)
    ),
    "zero for a value": Planted(_array(1), _array(0), "other", max_ulp=0x3F800000, index=(0,)),
    # other number systems
    "bool": Planted(_array(True, False, dtype=bool), _array(True, True, dtype=bool), "other", max_ulp=1, index=(1,)),
    "integers": Planted(
        _array(-(2**63), dtype=np.int64), _array(2**63 - 1, dtype=np.int64), "other", max_ulp=2**64 - 1, index=(0,)
    ),
    "unsigned integers": Planted(
        _array(2**64 - 1, dtype=np.uint64), _array(0, dtype=np.uint64), "other", max_ulp=2**64 - 1, index=(0,)
    ),
    "int4": Planted(_bits(7, dtype="int4"), _bits(8, dtype="int4"), "other", max_ulp=15, index=(0,)),
    "power of two without sign": Planted(
        _bits(0, dtype="float8_e8m0fnu"), _bits(1, dtype="float8_e8m0fnu"), "rounding", max_ulp=1, index=(0,)
    ),
    "sign of an imaginary zero": Planted(
        _array(complex(1, -0.0), dtype=np.complex64),
        _array(complex(1, 0.0), dtype=np.complex64),
        "sign of zero",
        max_ulp=0,
        index=(0,),
    ),
    "the graver part of a complex number": Planted(
        _array(complex(-0.0, 1), dtype=np.complex128),
        _array(complex(0.0, 2), dtype=np.complex128),
        "other",
        max_ulp=1 << 52,
        index=(0,),
    ),
}
