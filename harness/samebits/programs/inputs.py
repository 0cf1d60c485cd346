"""Arguments and cotangents, seeded from the names of the pair, the case and the array: the same command, the same bits.

Every case has an `ordinary` record; where an argument declares special values there is a `special` record of the
same shapes too, so that both run through one compiled program.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from samebits.errors import DeclarationError
from samebits.host.cache_keys import ByIdentity
from samebits.host.isolation import undone
from samebits.numerics import floats
from samebits.numerics.seeds import generator
from samebits.programs.asked import record
from samebits.programs.given_values import given_array, redrawn, variation
from samebits.programs.input_bounds import arg_below, check_finite, check_values, equal_array
from samebits.programs.made_values import made_array
from samebits.programs.uniform_values import uniform_array
from samebits.schema.case import Arg, Case
from samebits.schema.meshes import MeshSpec
from samebits.schema.pair import Pair
from samebits.schema.values import Given, Integers, Normal, Uniform

Array = NDArray[Any]
Record = dict[str, Array]

COTANGENTS = ("random", "scaled", "one_hot", "ones")
"""The cotangents of every gradient: random; the same times -3; a single 1 in each output; and those of `sum()`."""


_KEY_NAMES = {"fry": "threefry2x32", "rbg": "rbg", "urbg": "unsafe_rbg"}
"""The generators of jax, by how their dtype is printed."""
_KEY_DTYPES = tuple(f"key<{tag}>" for tag in _KEY_NAMES)
_KEY_WORDS = {"threefry2x32": 2, "rbg": 4, "unsafe_rbg": 4}
"""How many 32-bit words a key has."""


def dtype_of(name: str) -> np.dtype[Any]:
    """The dtype of a name, `bfloat16` and its like included.

    Raises:
        DeclarationError: no such dtype.
    """
    try:
        return np.dtype(getattr(ml_dtypes, name, name))
    except TypeError:
        raise DeclarationError(
            f"dtype '{name}' is unknown; expected a name such as float32, bfloat16 or int32"
        ) from None


def of_draw(draw: int) -> tuple[str, ...]:
    """What a draw adds to the names that seed its values: the first one nothing."""
    return (f"draw {draw}",) if draw else ()


def arg_dtype(arg: Arg, dtype: str) -> np.dtype[Any]:
    """The dtype that an argument has in a sweep over `dtype`."""
    if arg.dtype is not None:
        return np.dtype(np.uint32) if is_key(arg) else dtype_of(arg.dtype)
    return np.dtype(np.int32) if isinstance(arg.values, Integers) else dtype_of(dtype)


def arg_shape(arg: Arg, name: str, case: Case) -> tuple[int, ...]:
    """The shape of an argument with the case's sizes filled in.

    Raises:
        DeclarationError: a named dimension is not among the case's sizes.
    """
    shape = []
    for size in arg.shape:
        if isinstance(size, str):
            if size not in case.sizes:
                raise DeclarationError(
                    f"case '{case.id}': argument '{name}' has a dimension '{size}' that is not in sizes "
                    f"({', '.join(case.sizes) or 'empty'}); write sizes={{'{size}': ...}}"
                )
            size = case.sizes[size]
        shape.append(int(size))
    return (*shape, _KEY_WORDS[key_implementation(str(arg.dtype))]) if is_key(arg) else tuple(shape)


def is_key(arg: Arg) -> bool:
    """Whether an argument is an array of typed random keys; its record holds the words of the keys."""
    return arg.dtype is not None and arg.dtype.startswith("key<")


def key_implementation(dtype: str) -> str:
    """The generator of random keys of a dtype such as `key<fry>`, as `jax.random.key` names it.

    Raises:
        DeclarationError: jax has no such generator.
    """
    tag = dtype.removeprefix("key<").removesuffix(">")
    if tag not in _KEY_NAMES:
        raise DeclarationError(f"dtype '{dtype}' is unknown; a random key is one of {', '.join(_KEY_DTYPES)}")
    return _KEY_NAMES[tag]


def differentiable(args: Mapping[str, Arg], dtype: str) -> tuple[str, ...]:
    """The arguments whose gradient is compared: floats, real or complex, not declared otherwise, in their order."""
    dtypes = {name: arg_dtype(arg, dtype) for name, arg in args.items() if arg.differentiable}
    return tuple(name for name in dtypes if floats.is_float(dtypes[name]) or floats.is_complex(dtypes[name]))


def records(pair: Pair, case: Case, dtype: str, mesh: MeshSpec, draw: int = 0) -> dict[str, Record]:
    """The argument records of a case: `ordinary`, `varied` where arrays are given, `special` where values are declared.

    The mesh matters only through shapes that depend on it; values are seeded by pair, case, dtype, argument and draw.

    Args:
        pair, case, dtype, mesh: whose arguments.
        draw: the draw that every check compares is 0; a further one has other values of the same distribution.

    Raises:
        DeclarationError: values of the wrong shape or dtype, constant or without a finite number, or equal rows.
    """
    with undone(f"{pair.name}: case '{case.id}': making its arguments"):
        drawn = _records(pair, case, dtype, mesh, draw)
    record_drawn(case, dtype, mesh, draw, drawn)
    return drawn


def record_drawn(case: Case, dtype: str, mesh: MeshSpec, draw: int, drawn: Mapping[str, Record]) -> None:
    """Record that a judgement uses what was drawn for a case: the user's functions make some of it."""
    record(("records", ByIdentity(case), dtype, mesh.id, draw), case, dtype, mesh, draw, drawn)


def _records(pair: Pair, case: Case, dtype: str, mesh: MeshSpec, draw: int) -> dict[str, Record]:
    args = pair.arguments(case, mesh)
    ordinary, varied, special = {}, {}, {}
    for name, arg in args.items():
        rng = generator(pair.name, case.id, dtype, name, *of_draw(draw))
        array = drawn_values(arg, name, rng, arg_shape(arg, name, case), arg_dtype(arg, dtype), case)
        check_values(arg, name, array, case)
        if isinstance(arg.values, Given):
            array = redrawn(array, rng, arg.values.copies) if draw else array
            nonnegative = draw % 2 == 1  # of all arrays of zeros together, since they may be under one root
            varied[name] = variation(array, rng, nonnegative=nonnegative)
            array = variation(array, rng, nonnegative=nonnegative) if draw else array
            varied[name].setflags(write=False)
        array.setflags(write=False)
        ordinary[name] = array
        special[name] = plant_specials(array, arg.special, rng) if arg.special else array
    check_finite(ordinary, case)
    by_label = {"ordinary": ordinary}
    if varied:
        by_label["varied"] = ordinary | varied
    if any(arg.special for arg in args.values()):
        by_label["special"] = special
    return by_label


def cotangent(kind: str, shape: tuple[int, ...], dtype: Any, *names: str) -> Array:
    """A cotangent for one output leaf.

    Args:
        kind: one of `COTANGENTS`.
        shape, dtype: of the output.
        names: what seeds it: pair, case, dtype and leaf.
    """
    if kind == "one_hot":
        flat = np.zeros(math.prod(shape), dtype)
        if flat.size:
            flat[int(generator(*names, kind).integers(flat.size))] = 1
        return flat.reshape(shape)
    if kind == "ones":
        return np.ones(shape, dtype)
    random = distinct_normal(generator(*names, "random"), shape, np.dtype(dtype), Normal())
    wide = np.complex128 if floats.is_complex(dtype) else np.float64
    return random if kind == "random" else (random.astype(wide) * -3).astype(dtype)


def drawn_values(
    arg: Arg, name: str, rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any], case: Case
) -> Array:
    """The elements of an argument, as its declaration draws them.

    Raises:
        DeclarationError: its values are of another shape, constant, or rows of them are equal.
    """
    where = f"case '{case.id}': argument '{name}'"
    if isinstance(arg.values, Given):
        return given_array(arg.values, shape, dtype, where)
    if isinstance(arg.values, Uniform):
        return uniform_array(arg.values, rng, shape, dtype, where)
    if isinstance(arg.values, Integers):
        return _integers(arg.values, rng, shape, dtype, where)
    if isinstance(arg.values, Normal):
        if arg.equals is not None:
            return equal_array(arg, name, shape, dtype, case)
        below = arg_below(arg, name, case)
        if below is not None:
            return _below(below, rng, shape, dtype)
        array = distinct_normal(rng, shape, dtype, arg.values)
        _refuse_equal_rows(array, where)
        return array
    return made_array(arg.values, rng, shape, dtype, where)


def distinct_normal(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any], values: Normal) -> Array:
    """Normal numbers without repeats where the dtype has room for them; integers and bools uniform over their range.

    Repeats are nudged upward along the number line, which moves a value by a few ulps at most as long as the
    array fills less than an eighth of the numbers between 2^-6 and 4; larger arrays keep their repeats.
    """
    count = math.prod(shape)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if not floats.is_float(dtype) and not floats.is_complex(dtype):
        return _distinct_integers(rng, count, dtype).reshape(shape)
    flat = values.offset + values.scale * rng.standard_normal(count)
    if floats.is_complex(dtype):
        return (flat + 1j * rng.standard_normal(count)).astype(dtype).reshape(shape)
    array = flat.astype(dtype)
    per_binade = 1 << int(ml_dtypes.finfo(dtype).nmant)
    if floats.has_sign(dtype) and count * 8 <= 2 * 8 * per_binade:
        order = np.argsort(floats.ordinals(array), kind="stable")
        steps = np.arange(count)
        places = np.maximum.accumulate(floats.ordinals(array)[order] - steps) + steps
        array[order] = floats.from_ordinals(places, dtype)
    return array.reshape(shape)


def _distinct_integers(rng: np.random.Generator, count: int, dtype: np.dtype[Any]) -> Array:
    bits = floats.width(dtype)
    low = -(1 << (bits - 1)) if dtype.kind == "i" or dtype.name.startswith("int") else 0
    room = 1 << bits
    stride = max(1, room // max(count, 1))
    places = rng.permutation(count).astype(object) * stride % room + low
    if stride > 1:  # multiples of a power of two would leave the low bits untried
        places = places + rng.integers(0, stride, count, np.uint64).astype(object)
    return np.array(places.tolist(), np.int64 if low else np.uint64).astype(dtype)


def _below(below: int, rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Integers of `[0, below)`, with the bounds themselves present where there is room for both."""
    array = rng.integers(0, below, shape)
    if array.size > 1:
        array.reshape(-1)[rng.choice(array.size, 2, replace=False)] = (0, below - 1)
    return array.astype(dtype)


def _integers(
    values: Integers, rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any], where: str
) -> Array:
    array = np.asarray(rng.integers(values.low, values.high, shape))
    must = sorted({values.low, values.high - 1, *values.also})
    if not values.also and array.size < len(must):  # a scalar has no room for both bounds, and any of the range will do
        return array.astype(dtype)
    if array.size < len(must):
        raise DeclarationError(f"{where} has {array.size} elements, too few for the values {must} that must appear")
    places = rng.choice(array.size, len(must), replace=False)
    array.reshape(-1)[places] = must
    return array.astype(dtype)


def _refuse_equal_rows(array: Array, where: str) -> None:
    """Equal rows along any axis would hide that two of them changed places."""
    if array.dtype.kind == "b" or floats.width(array.dtype) < 8:
        return
    for axis, length in enumerate(array.shape):
        if 1 < length <= 4096 and array.size // length > 1:
            rows = floats.raw_bits(np.moveaxis(array, axis, 0)) if not floats.is_complex(array.dtype) else array
            if len({row.tobytes() for row in rows}) < len(rows):
                raise DeclarationError(
                    f"{where} has equal rows along dimension {axis}; give it more elements or other values"
                )


def plant_specials(array: Array, special: tuple[str, ...], rng: np.random.Generator) -> Array:
    """A copy with special values planted at random places; each appears as often as fits in a quarter of the array."""
    if floats.is_complex(array.dtype):
        raise DeclarationError(f"special values ({', '.join(special)}) are of real numbers; got {array.dtype.name}")
    specials = special_values(array.dtype, special)
    planted = array.copy()
    if not specials.size or not planted.size:
        return planted
    room = max(min(planted.size, specials.size), planted.size // 4)
    places = rng.permutation(planted.size)[:room]
    planted.reshape(-1)[places] = specials[np.arange(room) % specials.size]
    planted.setflags(write=False)
    return planted


def special_values(dtype: Any, special: tuple[str, ...]) -> Array:
    """The special values that a dtype has, in the order asked for; an integer's bounds, 0 and -1."""
    dtype = np.dtype(dtype)
    if dtype.kind in "bc":
        return np.array([], dtype)
    if not floats.is_float(dtype):
        info = ml_dtypes.iinfo(dtype)
        return np.array([int(info.min), int(info.max), 0, -1 if int(info.min) < 0 else 1]).astype(dtype)
    if not floats.has_sign(dtype):
        return np.array([], dtype)
    info_f = ml_dtypes.finfo(dtype)
    sign = 1 << (floats.width(dtype) - 1)
    nan = int(floats.raw_bits(np.array([np.nan]).astype(dtype))[0])
    infinite = bool(np.isinf(np.array([np.inf]).astype(dtype))[0])
    bits = {
        "-0.0": sign,
        "nan": nan & ~sign if not np.dtype(dtype).name.endswith("fnuz") else nan,
        # The sign and the lowest bit of a quiet NaN are payload; formats with a single NaN do not have them.
        "nan_payload": nan | sign | 1,
        "inf": int(floats.raw_bits(np.array([np.inf]).astype(dtype))[0]),
        "-inf": int(floats.raw_bits(np.array([-np.inf]).astype(dtype))[0]),
        "subnormal": 1,
        "largest": int(floats.raw_bits(np.array([info_f.max]).astype(dtype))[0]),
    }
    values = []
    for name in special:
        value = floats.from_bits(np.array([bits[name]], np.uint64), dtype)
        wanted = {"nan": np.isnan, "nan_payload": np.isnan, "inf": np.isinf, "-inf": np.isinf}.get(name)
        if name in ("inf", "-inf") and not infinite:
            continue
        if wanted is None or bool(wanted(value)[0]):
            values.append(value)
    return np.concatenate(values) if values else np.array([], dtype)
