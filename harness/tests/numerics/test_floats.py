"""The number line against NumPy's `nextafter` and `spacing`, and against the table of all patterns."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from samebits.numerics import floats
from tests.numerics import formats
from tests.numerics.formats import Array

NATIVE = ("float64", "float32", "float16")


def landmarks(name: str) -> Array:
    """Finite numbers where a number line goes wrong: zeros, both sides of subnormal, every binade edge, the largest."""
    dtype = formats.dtype_of(name)
    info = np.finfo(dtype)
    edges = np.ldexp(np.ones((), dtype), np.arange(info.minexp - info.nmant, info.maxexp)).astype(dtype)
    with np.errstate(over="ignore"):  # above the largest edge lies infinity in the coarsest steps
        both = np.concatenate([edges, np.nextafter(edges, dtype.type(0)), np.nextafter(edges, dtype.type(np.inf))])
    tenths = np.array([0.1, 1 / 3, np.pi, 1e3], dtype)
    positive = np.concatenate([both, tenths, np.array([0.0, info.max, info.smallest_normal], dtype)])
    positive = positive[np.isfinite(positive)]
    return np.concatenate([positive, -positive])


@pytest.mark.parametrize("name", NATIVE)
@pytest.mark.parametrize("target", [np.inf, -np.inf])
def test_a_neighbour_is_one_ulp_away(name: str, target: float) -> None:
    start = landmarks(name)
    with np.errstate(over="ignore"):
        neighbour = np.nextafter(start, start.dtype.type(target))
    kept = np.isfinite(neighbour)
    assert kept.sum() > start.size - 6
    assert (floats.distance(start, neighbour)[kept] == 1).all()


@pytest.mark.parametrize("name", NATIVE)
@pytest.mark.parametrize("target", [np.inf, -np.inf])
def test_k_steps_are_k_ulps_also_across_zero(name: str, target: float) -> None:
    dtype = formats.dtype_of(name)
    behind = dtype.type(-np.sign(target) * np.finfo(dtype).smallest_subnormal * 20)
    start = np.append(landmarks(name), behind)
    place = start
    for steps in range(1, 41):
        with np.errstate(over="ignore"):
            place = np.nextafter(place, dtype.type(target))
        kept = np.isfinite(place)
        assert (floats.distance(start, place)[kept] == steps).all()
    assert np.sign(place[-1]) == np.sign(target), "the last start must have crossed zero"


@pytest.mark.parametrize("name", NATIVE)
def test_spacing_is_one_ulp(name: str) -> None:
    start = landmarks(name)
    start = start[np.abs(start) < np.finfo(start.dtype).max]
    # NumPy's spacing points away from zero; at -0.0 the sign of its result is left open.
    start = start[(start != 0) | ~np.signbit(start)]
    assert (floats.distance(start, start + np.spacing(start)) == 1).all()


@pytest.mark.parametrize("name", NATIVE)
def test_the_ends_of_the_line_are_their_count_apart(name: str) -> None:
    """The whole line, which for float64 is longer than int64 holds, without overflow."""
    info = np.finfo(formats.dtype_of(name))
    low, high = np.array([-info.max]), np.array([info.max])
    exponents = (1 << (info.bits - info.nmant - 1)) - 1
    assert int(floats.distance(low, high)[0]) == 2 * ((exponents << info.nmant) - 1)
    assert int(floats.distance(high, low)[0]) == 2 * ((exponents << info.nmant) - 1)


@pytest.mark.parametrize("name", formats.SMALL_FLOATS)
def test_the_order_of_all_patterns_is_the_order_of_their_values(name: str) -> None:
    check_line(name)


def check_line(name: str) -> None:
    """Sorted by value, the places rise by exactly 1 from each number to the next; equal values share a place."""
    array = formats.all_patterns(name)
    value = formats.exact(array)
    array, value = array[~np.isnan(value)], value[~np.isnan(value)]
    order = np.argsort(value, kind="stable")
    places, sorted_values = floats.ordinals(array)[order], value[order]
    assert (np.diff(places) == (np.diff(sorted_values) > 0)).all()
    zeros = places[sorted_values == 0]
    assert (zeros == 0).all()
    assert zeros.size == (0 if name == formats.NO_ZERO else 1 if name.endswith("fnuz") else 2)


@pytest.mark.parametrize("name", formats.SMALL_FLOATS)
def test_the_next_float_of_every_format_is_one_ulp_away(name: str) -> None:
    array = formats.all_patterns(name)
    value = formats.exact(array)
    array = array[np.isfinite(value)]
    largest = array[np.argmax(formats.exact(array))]
    neighbour = np.nextafter(array, np.full_like(array, largest))
    expected = (formats.exact(array) < formats.exact(largest)).astype(np.uint64)
    assert (floats.distance(array, neighbour) == expected).all()


def _unsigned_line(array: Array) -> Array:
    return floats.raw_bits(array).astype(np.int64)


def _sign_and_magnitude_off_by_one(array: Array) -> Array:
    places = original(array)
    return np.where(places < 0, places - 1, places)


def _coarse(array: Array) -> Array:
    return original(array) // 2


original = floats.ordinals


@pytest.mark.parametrize("wrong", [_unsigned_line, _sign_and_magnitude_off_by_one, _coarse])
@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float4_e2m1fn"])
def test_wrong_lines_are_caught(wrong: Callable[[Array], Array], name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check_line(name)
    monkeypatch.setattr(floats, "ordinals", wrong)
    with pytest.raises(AssertionError):
        check_line(name)


@pytest.mark.parametrize("name", formats.SMALL_FLOATS)
def test_places_read_back(name: str) -> None:
    array = formats.all_patterns(name)
    value = formats.exact(array)
    kept = ~np.isnan(value) & ~((value == 0) & np.signbit(value))
    back = floats.from_ordinals(floats.ordinals(array), array.dtype)
    assert back.dtype == array.dtype
    assert (floats.raw_bits(back)[kept] == floats.raw_bits(array)[kept]).all()


@pytest.mark.parametrize("name", ["float64", "float32"])
def test_places_of_wide_formats_read_back(name: str) -> None:
    start = landmarks(name)
    back = floats.from_ordinals(floats.ordinals(start), start.dtype)
    assert (back == start).all()
    assert not np.signbit(back[back == 0]).any(), "place 0 is +0.0"


@pytest.mark.parametrize(
    ("place", "name"), [(-1, "float8_e8m0fnu"), (256, "float8_e8m0fnu"), (128, "float8_e5m2"), (-8, "float4_e2m1fn")]
)
def test_a_place_off_the_line_is_refused(place: int, name: str) -> None:
    with pytest.raises(ValueError, match=f"places {place} to {place} are not all on the line of {name}"):
        floats.from_ordinals(np.array([place]), formats.dtype_of(name))


@pytest.mark.parametrize("name", formats.SMALL_FLOATS)
def test_nan_infinity_zero_sign_and_subnormal_of_every_pattern(name: str) -> None:
    array = formats.all_patterns(name)
    value = formats.exact(array)
    number = ~np.isnan(value)
    normal = formats.smallest_normal(name)
    assert (floats.isnan(array) == np.isnan(value)).all()
    assert (floats.isinf(array) == np.isinf(value)).all()
    assert (floats.is_zero(array) == (value == 0))[number].all()
    assert (floats.is_negative(array) == np.signbit(value))[number].all()
    assert (floats.is_subnormal(array) == ((np.abs(value) < normal) & (value != 0)))[number].all()


@pytest.mark.parametrize("name", ["float64", "float32"])
def test_subnormals_of_wide_formats(name: str) -> None:
    start = landmarks(name)
    expected = (np.abs(start) < np.finfo(start.dtype).smallest_normal) & (start != 0)
    assert expected.any() and not expected.all()
    assert (floats.is_subnormal(start) == expected).all()


@pytest.mark.parametrize("name", formats.DTYPES)
def test_width_is_what_the_format_says(name: str) -> None:
    assert floats.width(formats.dtype_of(name)) == formats.bits_of(name)


@pytest.mark.parametrize(
    ("name", "digits"),
    [("float64", 53), ("float32", 24), ("float16", 11), ("bfloat16", 8), ("float8_e4m3fn", 4), ("float8_e8m0fnu", 1)],
)
def test_digits_of_the_significand(name: str, digits: int) -> None:
    assert floats.digits(formats.dtype_of(name)) == digits


@pytest.mark.parametrize("name", formats.DTYPES)
def test_each_dtype_is_float_complex_or_neither(name: str) -> None:
    dtype = formats.dtype_of(name)
    assert floats.is_float(dtype) == (name in formats.FLOATS)
    assert floats.is_complex(dtype) == (name in formats.COMPLEX)
    assert floats.is_number(dtype)


@pytest.mark.parametrize("dtype", ["U3", "S3", "O", "M8[s]", "m8[s]", "longdouble", "clongdouble", "f4,f4", "V4"])
def test_what_jax_cannot_hold_is_not_a_number(dtype: str) -> None:
    assert not floats.is_number(np.dtype(dtype))


@pytest.mark.parametrize("name", [name for name in formats.DTYPES if name not in formats.COMPLEX])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3, 4)])
def test_raw_bits_are_the_view_and_read_back(name: str, shape: tuple[int, ...]) -> None:
    array = formats.random_bytes(name, shape)
    bits = floats.raw_bits(array)
    used = (1 << formats.bits_of(name)) - 1
    assert bits.shape == shape
    assert bits.tolist() == (array.view(f"uint{8 * array.dtype.itemsize}") & bits.dtype.type(used)).tolist()
    back = floats.from_bits(bits, array.dtype)
    assert back.shape == shape and back.dtype == array.dtype
    assert floats.raw_bits(back).tolist() == bits.tolist()


@pytest.mark.parametrize("layout", ["transposed", "strided", "reversed", "broadcast", "unaligned"])
def test_raw_bits_follow_the_elements_not_the_memory(layout: str) -> None:
    base = np.arange(24, dtype=np.float32).reshape(4, 6)
    made: dict[str, Any] = {
        "transposed": base.T,
        "strided": base[::2, 1::3],
        "reversed": base[::-1, ::-1],
        "broadcast": np.broadcast_to(base[:1], (5, 6)),
        "unaligned": np.frombuffer(b"x" + base.tobytes(), np.uint8)[1:].view(np.float32).reshape(4, 6),
    }
    array = made[layout]
    assert floats.raw_bits(array).tolist() == np.array(array.tolist(), np.float32).view(np.uint32).tolist()


@pytest.mark.parametrize(
    ("value", "decimal", "pattern"),
    [
        (np.float64(0.1), "0.1", "0x3fb999999999999a"),
        (np.float32(0.1), "0.100000001", "0x3dcccccd"),
        (np.float32(-0.0), "-0", "0x80000000"),
        (formats.from_patterns(0xBFAD, "bfloat16"), "-1.3515625", "0xbfad"),
        (formats.from_patterns(0x80, "float8_e4m3fnuz"), "nan", "0x80"),
        (formats.from_patterns(0xF5, "float4_e2m1fn"), "3", "0x5"),
        (formats.from_patterns(0xFF, "int4"), "-1", "0xf"),
        (formats.from_patterns(0xFE, "uint2"), "2", "0x2"),
        (np.uint64(2**64 - 1), "18446744073709551615", "0xffffffffffffffff"),
        (np.bool_(True), "True", "0x01"),
        (np.complex64(complex(1, -0.0)), "(1-0j)", "0x3f800000, 0x80000000"),
    ],
)
def test_a_value_is_shown_in_decimal_and_in_bits(value: Any, decimal: str, pattern: str) -> None:
    assert (floats.show(value), floats.hexadecimal(value)) == (decimal, pattern)


@pytest.mark.parametrize("name", formats.EIGHT_BITS_OR_LESS)
def test_different_numbers_are_shown_differently(name: str) -> None:
    shown = [floats.show(value) for value in formats.all_patterns(name) if not np.isnan(value)]
    assert len(set(shown)) == len(shown)
