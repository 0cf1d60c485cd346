"""Arguments and cotangents, seeded from the names of the pair, the case and the array: the same command, the same bits.

Every case has an `ordinary` record; where an argument declares special values there is a `special` record of the
same shapes too, so that both run through one compiled program.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from samebits.errors import DeclarationError
from samebits.host.cache_keys import ByIdentity
from samebits.host.interrupts import Stop
from samebits.host.isolation import undone
from samebits.numerics import floats
from samebits.numerics.bits import free_places
from samebits.numerics.by_content import by_content
from samebits.numerics.seeds import generator
from samebits.programs.asked import record
from samebits.schema.case import Arg, Case
from samebits.schema.meshes import MeshSpec
from samebits.schema.pair import Pair
from samebits.schema.size_symbols import INDEX, symbols_in, value_of
from samebits.schema.values import Given, Integers, Normal, Uniform
from samebits.user_errors import one_line

# Arrays that the function of a declaration makes: `Arg(values=lambda rng, shape: ...)`.
Array = NDArray[Any]


def made_array(
    make: Callable[[np.random.Generator, tuple[int, ...]], Any],
    rng: np.random.Generator,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    where: str,
) -> Array:
    """Return the elements of an argument, made by a function of the user's."""
    try:
        array = np.asarray(make(rng, shape))
    except BaseException as error:  # `sys.exit()` is no `Exception`
        if Stop.caused(error):
            raise
        raise DeclarationError(f"{where}: its values function {one_line(error)}") from error
    if array.shape != shape:
        raise DeclarationError(f"{where}: its values function gave shape {array.shape}; expected {shape}")
    array = _cast(array, dtype, where)
    if floats.is_float(dtype) and array.size > 1 and np.all(floats.raw_bits(array) == floats.raw_bits(array).flat[0]):
        raise DeclarationError(
            f"{where}: its values function gave {array.size} equal values; they would hide a permutation"
        )
    return array


def _cast(array: Array, dtype: np.dtype[Any], where: str) -> Array:
    """Return the values in another dtype; floats are rounded, and integers are cut off."""
    wrong = f"{where}: its values function gave {array.dtype}"
    if np.iscomplexobj(array) and not floats.is_complex(dtype):
        raise DeclarationError(f"{wrong}; expected real numbers for {dtype.name}")
    exact = not floats.is_float(dtype) and not floats.is_complex(dtype) and dtype.kind != "b"
    if exact and floats.is_float(array.dtype) and not np.isfinite(array).all():
        raise DeclarationError(f"{wrong} with an infinity or a NaN, which {dtype.name} does not hold")
    try:
        with np.errstate(over="ignore"):
            return array.astype(dtype)
    except (TypeError, ValueError) as error:
        raise DeclarationError(f"{wrong}, which is not {dtype.name}: {error}") from error


# Floats of a stated range: `Arg(values=Uniform(low=0, high=1))`.
def uniform_array(
    values: Uniform, rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any], where: str
) -> Array:
    """Draw floats of `[low, high]`, all different where the dtype has as many in the range."""
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
    """Move repeats to the next free number of the range; keep them where the range has too few numbers."""
    first, last = (int(place) for place in floats.ordinals(ends))
    return array if last - first + 1 < array.size else _apart(array, last)


def _apart(array: Array, last: int | None = None) -> Array:
    """Move repeats upward to the next number, and those that would then be above the last one back to it."""
    before, steps = floats.ordinals(array), np.arange(array.size)
    order = _ascending(before, floats.width(array.dtype))
    places = np.maximum.accumulate(before[order] - steps) + steps
    if last is not None:
        places = np.minimum(places, last - (array.size - 1 - steps))
    array[order] = floats.from_ordinals(places, array.dtype)
    return array


def _ascending(places: Array, width: int) -> Array:
    """Return what sorts ordinals of floats of so many bits, equal ones in their order."""
    index_bits = max(places.size - 1, 0).bit_length()
    if width + index_bits > 63:
        return np.argsort(places, kind="stable")
    # Sorting integers that end with their index takes a tenth of the time of `argsort`.
    return np.sort(places << index_bits | np.arange(places.size)) & ((1 << index_bits) - 1)


# Arrays that a caller has already, as inputs: the array itself, and variations of it.
SPREAD = 0.25
"""By how much of its value an element of a variation may differ from the array that was given."""

FROM_ZERO = 0.1
"""The standard deviation of a variation of zeros."""

UNLIKE = 6.0
"""From how many standard errors on the elements of a slice are unlike those of the array, in mean or in magnitude."""


def given_array(values: Given, shape: tuple[int, ...], dtype: np.dtype[Any], where: str) -> Array:
    """Return the array itself, in the dtype of the argument; for a case under `vmap`, as often as there are copies."""
    array = np.array(values.array, dtype)
    if values.copies:
        array = np.stack([array] * values.copies)
    if array.shape != shape:
        raise DeclarationError(f"{where}: the given array has shape {array.shape}; expected {shape}")
    return array


def variation(array: Array, rng: np.random.Generator, *, nonnegative: bool = False) -> Array:
    """Return another array of the same kind; see `Given`. Integers and bools are the same.

    A check of given arrays alone would miss what their values hide: a scale of ones that is not applied, a bias of
    zeros that is not added. Zeros get both signs, but where they must stay `nonnegative`, as in a second moment.
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
    """Return what a further draw is a variation of: the array, its elements (or those of each copy) in another order.

    Sums that nearly cancel in the array nearly cancel in each of its variations too, so that variations alone are not
    independent draws of how accurate a program is. What looks structured keeps its places, and so do integers and
    bools. The slices of an axis keep their elements where these are of different means or magnitudes.
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
    """Tell whether the further draws of a given array depend on each other: some of its floats keep their places."""
    array = np.asarray(values.array)
    if not _is_varied(array) or not np.any(array):  # zeros are drawn anew
        return False
    places, slices = _movable(array)
    return not places.size or bool(np.any(slices))


def _is_varied(array: Array) -> bool:
    return (floats.is_float(array.dtype) or floats.is_complex(array.dtype)) and floats.has_sign(array.dtype)


@by_content
def _movable(array: Array) -> tuple[Array, Array]:
    """Return the places whose elements may change places with each other, and which slice each belongs to."""
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
    """Return whether matrices have a diagonal of other numbers, as those that are inverted mostly do."""
    if real.ndim < 2 or real.shape[-1] != real.shape[-2]:
        return False
    return _differ(np.diagonal(real, axis1=-2, axis2=-1).reshape(1, -1), real)


def _differ(slices: Array, real: Array) -> bool:
    """Return whether slices are unlike the array that they are of, in mean or in magnitude, by more than chance."""
    for values, whole in ((slices, real), (np.abs(slices), np.abs(real))):
        error = whole.std() / np.sqrt(max(values.shape[1], 1))
        if np.any(np.abs(values.mean(1) - whole.mean()) > UNLIKE * error):
            return True
    return False


Record = dict[str, Array]

COTANGENTS = ("random", "scaled", "one_hot", "ones")
"""The cotangents of every gradient: random; the same times -3; a single 1 in each output; and those of `sum()`."""


_KEY_NAMES = {"fry": "threefry2x32", "rbg": "rbg", "urbg": "unsafe_rbg"}
"""The generators of jax, by how their dtype is printed."""
_KEY_DTYPES = tuple(f"key<{tag}>" for tag in _KEY_NAMES)
_KEY_WORDS = {"threefry2x32": 2, "rbg": 4, "unsafe_rbg": 4}
"""How many 32-bit words a key has."""


def dtype_of(name: str) -> np.dtype[Any]:
    """Return the dtype of a name, `bfloat16` and its like included."""
    try:
        return np.dtype(getattr(ml_dtypes, name, name))
    except TypeError:
        raise DeclarationError(
            f"dtype '{name}' is unknown; expected a name such as float32, bfloat16 or int32"
        ) from None


def of_draw(draw: int) -> tuple[str, ...]:
    """Return what a draw adds to the names that seed its values: the first one nothing."""
    return (f"draw {draw}",) if draw else ()


def arg_dtype(arg: Arg, dtype: str) -> np.dtype[Any]:
    """Return the dtype that an argument has in a sweep over `dtype`."""
    if arg.dtype is not None:
        return np.dtype(np.uint32) if is_key(arg) else dtype_of(arg.dtype)
    return np.dtype(np.int32) if isinstance(arg.values, Integers) else dtype_of(dtype)


def arg_shape(arg: Arg, name: str, case: Case) -> tuple[int, ...]:
    """Return the shape of an argument with the case's sizes filled in."""
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
    """Return whether an argument is an array of typed random keys; its record holds the words of the keys."""
    return arg.dtype is not None and arg.dtype.startswith("key<")


def key_implementation(dtype: str) -> str:
    """Return the generator of random keys of a dtype such as `key<fry>`, as `jax.random.key` names it."""
    tag = dtype.removeprefix("key<").removesuffix(">")
    if tag not in _KEY_NAMES:
        raise DeclarationError(f"dtype '{dtype}' is unknown; a random key is one of {', '.join(_KEY_DTYPES)}")
    return _KEY_NAMES[tag]


def differentiable(args: Mapping[str, Arg], dtype: str) -> tuple[str, ...]:
    """Return the arguments whose gradient is compared: floats, not declared otherwise, in their order."""
    dtypes = {name: arg_dtype(arg, dtype) for name, arg in args.items() if arg.differentiable}
    return tuple(name for name in dtypes if floats.is_float(dtypes[name]) or floats.is_complex(dtypes[name]))


def records(pair: Pair, case: Case, dtype: str, mesh: MeshSpec, draw: int = 0) -> dict[str, Record]:
    """Return the records of a case: `ordinary`, `varied` of given arrays, `special` where special values are declared.

    The mesh matters only through shapes that depend on it; values are seeded by pair, case, dtype, argument and draw.
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
    """Return a cotangent of a kind of `COTANGENTS` for an output leaf; names of pair, case, dtype and leaf seed it."""
    if kind == "one_hot":
        flat = np.zeros(math.prod(shape), dtype)
        if flat.size:
            flat[int(generator(*names, kind).integers(flat.size))] = 1
        return flat.reshape(shape)
    if kind == "ones":
        return np.ones(shape, dtype)
    random = distinct_normal(generator(*names, "random"), shape, np.dtype(dtype), Normal())
    return random if kind == "random" else scaled(random)


def scaled(random: Array) -> Array:
    """Return the scaled cotangent of a random one."""
    wide = np.complex128 if floats.is_complex(random.dtype) else np.float64
    return (random.astype(wide) * -3).astype(random.dtype)


def drawn_values(
    arg: Arg, name: str, rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any], case: Case
) -> Array:
    """Return the elements of an argument, as its declaration draws them."""
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
            return _integers(Integers(high=below), rng, shape, dtype, where)
        array = distinct_normal(rng, shape, dtype, arg.values)
        _refuse_equal_rows(array, where)
        return array
    return made_array(arg.values, rng, shape, dtype, where)


def distinct_normal(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any], values: Normal) -> Array:
    """Draw normal numbers, without repeats where the dtype has room for them; integers and bools are uniform.

    Repeats are nudged upward along the number line, which moves a value by a few ulps at most as long as the array
    fills less than an eighth of the numbers between 2^-6 and 4; larger arrays keep their repeats.
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
        array = _apart(array)
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
    """Reject equal rows along any axis: they would hide that two of them changed places."""
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
    """Copy with special values planted at random places; each appears as often as fits in a quarter of the array."""
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
    """Return the special values that a dtype has, in the order asked for; an integer's bounds, 0 and -1."""
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


# What values of inputs must be: integers in their declared bound or equal to what they must equal, floats finite.
def arg_below(arg: Arg, name: str, case: Case) -> int | None:
    """Return the number that all elements of an argument are below of, and at least 0; None where none is declared."""
    if not isinstance(arg.below, str):
        return arg.below
    below: int = value_of(arg.below, _numbers(arg.below, f"argument '{name}' is below", case))
    if isinstance(below, int) and below < 1:
        raise DeclarationError(
            f"case '{case.id}': argument '{name}' is below '{arg.below}', which is {below}; expected at least 1"
        )
    return below


def arg_equals(arg: Arg, name: str, case: Case, places: Mapping[str, Any]) -> Any:
    """Return what each element of an argument is, at these `places`; None where that is not declared."""
    if not isinstance(arg.equals, str):
        return arg.equals
    taken = next((size for size in case.numbers if INDEX.fullmatch(size)), None)
    if taken is not None:
        raise DeclarationError(
            f"case '{case.id}': argument '{name}' equals '{arg.equals}', and '{taken}' is a size; give the size "
            f"another name, as {taken} is the place along dimension {taken.removeprefix('index')}"
        )
    return value_of(arg.equals, {**_numbers(arg.equals, f"argument '{name}' equals", case), **places})


def equal_array(arg: Arg, name: str, shape: tuple[int, ...], dtype: Any, case: Case) -> Array:
    """Return all elements of an argument that equals something."""
    places = {f"index{axis}": index for axis, index in enumerate(np.indices(shape, np.int64, sparse=True))}
    values = np.broadcast_to(np.asarray(arg_equals(arg, name, case, places), np.int64), shape)
    array: Array = values.astype(dtype)
    if (array != values).any():
        raise DeclarationError(
            f"case '{case.id}': argument '{name}' equals {arg.equals!r}, which is {values.min()} to {values.max()} and "
            f"does not fit into {np.dtype(dtype).name}"
        )
    return array


def _numbers(text: str, what: str, case: Case) -> dict[str, int]:
    """Return the numbers that an expression names."""
    # Not `case.numbers`: a size that is a symbol is kept as it is.
    known: dict[str, Any] = {n: value for n, value in {**case.statics, **case.sizes}.items() if n in case.numbers}
    for symbol in symbols_in(text):
        if symbol not in known and not INDEX.fullmatch(symbol):
            which = "which" if symbol == text else f"and '{symbol}'"
            raise DeclarationError(
                f"case '{case.id}': {what} '{text}', {which} is neither a size nor a static "
                f"integer; expected {'one ' if symbol == text else ''}of {', '.join(known) or 'none'}"
            )
    return known


def check_values(arg: Arg, name: str, array: Array, case: Case) -> None:
    """Reject values that a declared bound or formula leaves out."""
    below = arg_below(arg, name, case)
    if below is not None and array.size and not (array.min() >= 0 and array.max() < below):
        raise DeclarationError(
            f"case '{case.id}': argument '{name}': its values are {array.min()} to {array.max()}; "
            f"expected them in [0, {below}), as below={arg.below!r} says"
        )
    if arg.equals is None:
        return
    expected = equal_array(arg, name, array.shape, array.dtype, case)
    for place in np.argwhere(array != expected)[:1]:
        index = tuple(int(number) for number in place)
        raise DeclarationError(
            f"case '{case.id}': argument '{name}': its element [{', '.join(map(str, index))}] is {array[index]}; "
            f"expected {expected[index]}, as equals={arg.equals!r} says"
        )


def check_finite(arrays: Mapping[str, Array], case: Case) -> None:
    """Reject floats of which none is finite: whatever computes with them gives infinities and NaNs on both sides."""
    numbers = {name: array for name, array in arrays.items() if array.size and _inexact(array.dtype)}
    if numbers and not any(np.isfinite(array).any() for array in numbers.values()):
        raise DeclarationError(
            f"case '{case.id}': all elements of {' and '.join(map(repr, numbers))} are infinite or NaN, so that "
            "nothing would be compared; expected finite values (`special=` adds infinities and NaNs to them)"
        )


def _inexact(dtype: np.dtype[Any]) -> bool:
    return floats.is_float(dtype) or floats.is_complex(dtype)
