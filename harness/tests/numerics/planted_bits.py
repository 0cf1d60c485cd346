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


@dataclass(frozen=True, kw_only=True)
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
    "a leaf more": Planted(
        reference=(one,), optimized=(one, one), kind="structure", detail="reference=(*), variant=(*, *)"
    ),
    "tuple for list": Planted(reference=[one], optimized=(one,), kind="structure", detail="reference=[*], variant=(*)"),
    "another key": Planted(
        reference={"a": one}, optimized={"b": one}, kind="structure", detail="reference={'a': *}, variant={'b': *}"
    ),
    "None for a leaf": Planted(
        reference=(one, one), optimized=(one, None), kind="structure", detail="reference=(*, *), variant=(*, None)"
    ),
    "leaf for a tuple": Planted(reference=(one,), optimized=one, kind="structure", detail="reference=(*), variant=*"),
    "named tuple for tuple": Planted(
        reference=(one, one),
        optimized=Point(one, one),
        kind="structure",
        detail="reference=(*, *), variant=Point(*, *)",
    ),
    "another order of keys": Planted(
        reference=OrderedDict(a=one, b=one),
        optimized=OrderedDict(b=one, a=one),
        kind="structure",
        detail="reference=OrderedDict{'a': *, 'b': *}, variant=OrderedDict{'b': *, 'a': *}",
    ),
    # what an array is, besides its bits
    "dtype": Planted(
        reference=_array(1, 2),
        optimized=_array(1, 2, dtype=np.float64),
        kind="dtype",
        mismatches=2,
        detail="reference=float32, variant=float64",
    ),
    "dtype of equal bits": Planted(
        reference=_array(0, dtype=np.int32),
        optimized=_array(0, dtype=np.uint32),
        kind="dtype",
        detail="reference=int32, variant=uint32",
    ),
    "weak type": Planted(
        reference=_array(1, 2),
        optimized=Weak(1, 2),
        kind="weak type",
        mismatches=2,
        max_ulp=0,
        detail="reference=False, variant=True",
    ),
    "value behind a weak type": Planted(
        reference=_array(1, 2),
        optimized=Weak(1, 9),
        kind="other",
        mismatches=2,
        max_ulp=17825792,
        index=(1,),
        detail="weak type: reference=False, variant=True",
    ),
    "shape": Planted(
        reference=np.zeros((2, 3), f32),
        optimized=np.zeros((3, 2), f32),
        kind="shape",
        mismatches=6,
        detail="reference=(2, 3), variant=(3, 2)",
    ),
    "0-d for one element": Planted(reference=f32(1), optimized=one, kind="shape", detail="reference=(), variant=(1,)"),
    "shape of nothing": Planted(
        reference=np.zeros((0, 3), f32),
        optimized=np.zeros((3, 0), f32),
        kind="shape",
        detail="reference=(0, 3), variant=(3, 0)",
    ),
    "dtype and shape": Planted(
        reference=np.zeros(2, f32),
        optimized=np.zeros(3, np.int8),
        kind="dtype",
        mismatches=2,
        detail="reference=float32, variant=int8; shape: reference=(2,), variant=(3,)",
    ),
    # classes of values
    "sign of zero": Planted(
        reference=_array(1, -0.0), optimized=_array(1, 0.0), kind="sign of zero", max_ulp=0, index=(1,)
    ),
    "sign of zero, 0-d": Planted(reference=f32(-0.0), optimized=f32(0.0), kind="sign of zero", max_ulp=0, index=()),
    "NaN payload": Planted(reference=_bits(NAN), optimized=_bits(OTHER_NAN), kind="NaN payload", index=(0,)),
    "sign of NaN": Planted(reference=_bits(NAN), optimized=_bits(NEGATIVE_NAN), kind="NaN payload", index=(0,)),
    "NaN beside rounding": Planted(
        reference=_array(1, 1, 1, 1),
        optimized=_array(NEXT, NEXT, np.nan, NEXT),
        kind="NaN vs number",
        mismatches=4,
        max_ulp=1,
        index=(2,),
    ),
    "NaN payload beside rounding": Planted(
        reference=np.concatenate([_array(1, 1), _bits(NAN)]),
        optimized=np.concatenate([_array(NEXT, NEXT), _bits(OTHER_NAN)]),
        kind="rounding",
        mismatches=3,
        max_ulp=1,
        index=(2,),
    ),
    "a wrong value beside rounding": Planted(
        reference=_array(1, 1, 1, 1),
        optimized=_array(NEXT, 2, NEXT, NEXT),
        kind="other",
        mismatches=4,
        max_ulp=8388608,
        index=(1,),
    ),
    "NaN for a number": Planted(reference=_array(1), optimized=_array(np.nan), kind="NaN vs number", index=(0,)),
    "NaN for infinity": Planted(reference=_array(np.inf), optimized=_array(np.nan), kind="NaN vs number", index=(0,)),
    "overflow": Planted(reference=_array(LARGEST), optimized=_array(np.inf), kind="overflow to infinity", index=(0,)),
    "overflow where there is no infinity": Planted(
        reference=_array(448, dtype=formats.dtype_of("float8_e4m3fn")),
        optimized=_bits(0x7F, dtype="float8_e4m3fn"),
        kind="NaN vs number",
        index=(0,),
    ),
    "infinity of the other sign": Planted(
        reference=_array(np.inf), optimized=_array(-np.inf), kind="other", index=(0,)
    ),
    "subnormal flushed": Planted(
        reference=_array(7 * TINY), optimized=_array(0.0), kind="subnormal flushed", max_ulp=7, index=(0,)
    ),
    "negative subnormal flushed": Planted(
        reference=_array(-TINY), optimized=_array(0.0), kind="subnormal flushed", max_ulp=1, index=(0,)
    ),
    "rounding": Planted(
        reference=_bits(0x3F800000), optimized=_bits(0x3F800000 + 4096), kind="rounding", max_ulp=4096, index=(0,)
    ),
    "just not rounding": Planted(
        reference=_bits(0x3F800000), optimized=_bits(0x3F800000 + 4097), kind="other", max_ulp=4097, index=(0,)
    ),
    "across zero": Planted(reference=_array(TINY), optimized=_array(-TINY), kind="other", max_ulp=2, index=(0,)),
    "wrong value": Planted(reference=_array(1), optimized=_array(2), kind="other", max_ulp=1 << 23, index=(0,)),
    "two values": Planted(
        reference=_array([1, 2], [3, 4]),
        optimized=_array([1, 5], [6, 4]),
        kind="other",
        mismatches=2,
        max_ulp=10485760,
        index=(0, 1),
    ),
    "zero for a value": Planted(reference=_array(1), optimized=_array(0), kind="other", max_ulp=0x3F800000, index=(0,)),
    # other number systems
    "bool": Planted(
        reference=_array(True, False, dtype=bool),
        optimized=_array(True, True, dtype=bool),
        kind="other",
        max_ulp=1,
        index=(1,),
    ),
    "integers": Planted(
        reference=_array(-(2**63), dtype=np.int64),
        optimized=_array(2**63 - 1, dtype=np.int64),
        kind="other",
        max_ulp=2**64 - 1,
        index=(0,),
    ),
    "unsigned integers": Planted(
        reference=_array(2**64 - 1, dtype=np.uint64),
        optimized=_array(0, dtype=np.uint64),
        kind="other",
        max_ulp=2**64 - 1,
        index=(0,),
    ),
    "int4": Planted(
        reference=_bits(7, dtype="int4"), optimized=_bits(8, dtype="int4"), kind="other", max_ulp=15, index=(0,)
    ),
    "power of two without sign": Planted(
        reference=_bits(0, dtype="float8_e8m0fnu"),
        optimized=_bits(1, dtype="float8_e8m0fnu"),
        kind="rounding",
        max_ulp=1,
        index=(0,),
    ),
    "sign of an imaginary zero": Planted(
        reference=_array(complex(1, -0.0), dtype=np.complex64),
        optimized=_array(complex(1, 0.0), dtype=np.complex64),
        kind="sign of zero",
        max_ulp=0,
        index=(0,),
    ),
    "the graver part of a complex number": Planted(
        reference=_array(complex(-0.0, 1), dtype=np.complex128),
        optimized=_array(complex(0.0, 2), dtype=np.complex128),
        kind="other",
        max_ulp=1 << 52,
        index=(0,),
    ),
}
