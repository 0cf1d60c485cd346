"""Properties of the comparison and of the order of floats, on arbitrary bits, shapes and layouts."""

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from samebits.numerics import bits, floats
from tests.numerics import formats
from tests.numerics.formats import Array

LAYOUTS = ("C", "Fortran", "transposed", "strided", "reversed", "offset")
SHAPES = st.lists(st.integers(0, 5), max_size=4).map(tuple)

few = settings(
    max_examples=40, derandomize=True, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)


def laid_out(array: Array, layout: str) -> Array:
    """The same elements in another place of memory."""
    if layout == "Fortran":
        return np.array(array, order="F")
    if layout == "transposed":
        return np.array(array.T, order="C").T
    if layout == "offset":  # off every boundary of a word
        buffer = np.zeros(array.nbytes + 1, np.uint8)
        placed = buffer[1:].view(array.dtype).reshape(array.shape)
        placed[...] = array
        return placed
    if layout in ("strided", "reversed") and array.ndim:
        step = 2 if layout == "strided" else -1
        room = np.zeros(tuple(size * abs(step) for size in array.shape), array.dtype)
        view = room[tuple(slice(None, None, step) for _ in array.shape)]
        view[...] = array
        return view
    return array.copy()


@st.composite
def arrays(draw: st.DrawFn, names: tuple[str, ...] = formats.DTYPES, shapes: Any = SHAPES) -> Array:
    """Arrays of arbitrary bits, NaNs of every payload included."""
    return formats.random_bytes(draw(st.sampled_from(names)), draw(shapes), draw(st.integers(0, 2**32 - 1)))


@few
@given(array=arrays(), left=st.sampled_from(LAYOUTS), right=st.sampled_from(LAYOUTS))
def test_the_same_bits_are_equal_in_any_layout(array: Array, left: str, right: str) -> None:
    a, b = laid_out(array, left), laid_out(array, right)
    comparison = bits.compare(reference=a, optimized=b)[0]
    assert comparison.equal and comparison.mismatches == 0 and comparison.witness is None
    assert bits.same_bits(a, b) and bits.same_bits(a, a)


@few
@given(
    array=arrays(shapes=st.lists(st.integers(1, 5), max_size=4).map(tuple)),
    left=st.sampled_from(LAYOUTS),
    right=st.sampled_from(LAYOUTS),
    data=st.data(),
)
def test_one_flipped_bit_is_found_at_its_index(array: Array, left: str, right: str, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, array.size - 1))
    used = 1 if array.dtype == bool else floats.width(array.dtype)
    bit = data.draw(st.integers(0, used - 1))
    other = array.copy()
    octets = other.reshape(-1).view(np.uint8).reshape(array.size, -1)
    octets[place, bit // 8] ^= 1 << bit % 8
    a, b = laid_out(array, left), laid_out(other, right)
    assert not bits.same_bits(a, b)
    comparison = bits.compare(reference=a, optimized=b)[0]
    assert comparison.mismatches == 1 == sum(comparison.kinds.values())
    assert comparison.witness is not None
    assert comparison.witness.index == tuple(int(i) for i in np.unravel_index(place, array.shape))
    assert comparison.witness.reference_hex != comparison.witness.optimized_hex


CHUNK = bits._CHUNK
EDGES = (0, 1, 7, 8, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK - 8, 2 * CHUNK, 2 * CHUNK + 4, 2 * CHUNK + 6)


@pytest.mark.parametrize("place", EDGES)
@pytest.mark.parametrize("dtype", [np.uint8, np.bool_, formats.dtype_of("float8_e5m2"), formats.dtype_of("int4")])
def test_a_bit_at_the_edge_of_a_chunk_is_found(place: int, dtype: Any) -> None:
    array = np.zeros(2 * CHUNK + 7, np.uint8).view(dtype)
    other = array.copy()
    assert bits.same_bits(array, other)
    other.view(np.uint8)[place] = 1
    assert not bits.same_bits(array, other)
    comparison = bits.compare(reference=array, optimized=other)[0]
    assert comparison.mismatches == 1
    assert comparison.witness is not None and comparison.witness.index == (place,)


@few
@given(count=st.integers(0, 40), place=st.integers(0, 39), name=st.sampled_from(["uint8", "uint16", "float32", "bool"]))
def test_every_byte_of_a_short_array_counts(count: int, place: int, name: str) -> None:
    array = np.zeros(count, formats.dtype_of(name))
    other = array.copy()
    if place < other.nbytes:
        other.view(np.uint8)[place] = 1
    assert bits.same_bits(array, other) == (place >= other.nbytes)


def finite(*names: str) -> Any:
    """Three finite floats of one format."""

    def of(name: str) -> Any:
        patterns = st.lists(st.integers(0, (1 << formats.bits_of(name)) - 1), min_size=3, max_size=3)
        return patterns.map(lambda drawn: formats.from_patterns(drawn, name)).filter(
            lambda array: not (floats.isnan(array) | floats.isinf(array)).any()
        )

    return st.sampled_from(names).flatmap(of)


@few
@given(array=finite(*formats.FLOATS))
@example(array=np.array([-np.finfo(np.float64).max, 0.0, np.finfo(np.float64).max]))
@example(array=np.array([-0.0, 0.0, 5e-324]))
def test_distance_is_symmetric_and_adds_up_along_the_line(array: Array) -> None:
    low, middle, high = (array[i : i + 1] for i in np.argsort(formats.exact(array), kind="stable"))
    whole, first, second = floats.distance(low, high), floats.distance(low, middle), floats.distance(middle, high)
    assert int(whole[0]) == int(first[0]) + int(second[0])
    assert whole == floats.distance(high, low) and first == floats.distance(middle, low)
    assert floats.distance(low, low) == 0
    assert (first[0] == 0) == bool(formats.exact(low) == formats.exact(middle))


@few
@given(array=finite("float64", "float32", "float16"), steps=st.integers(1, 30), up=st.booleans())
def test_steps_of_nextafter_are_ulps(array: Array, steps: int, up: bool) -> None:
    place = array
    with np.errstate(over="ignore"):
        for _ in range(steps):
            place = np.nextafter(place, array.dtype.type(np.inf if up else -np.inf))
    kept = np.isfinite(place)
    assert (floats.distance(array, place)[kept] == steps).all()


@few
@given(left=arrays(), data=st.data())
def test_swapping_the_sides_changes_nothing_but_the_witness(left: Array, data: st.DataObject) -> None:
    right = formats.random_bytes(left.dtype.name, left.shape, data.draw(st.integers(0, 99)))
    one, two = bits.compare(reference=left, optimized=right)[0], bits.compare(reference=right, optimized=left)[0]
    assert (one.kinds, one.mismatches, one.max_ulp) == (two.kinds, two.mismatches, two.max_ulp)
    assert (one.witness is None) == (two.witness is None)
    if one.witness is not None and two.witness is not None:
        assert one.witness.index == two.witness.index
        assert (one.witness.reference_hex, one.witness.optimized_hex) == (
            two.witness.optimized_hex,
            two.witness.reference_hex,
        )


@few
@given(left=arrays(), data=st.data())
def test_the_count_is_that_of_elements_whose_bits_differ(left: Array, data: st.DataObject) -> None:
    right = formats.random_bytes(left.dtype.name, left.shape, data.draw(st.integers(0, 99)))
    masks = (1 << min(floats.width(left.dtype), 8)) - 1
    octets = [x.reshape(-1).view(np.uint8).reshape(left.size, left.itemsize) & masks for x in (left, right)]
    expected = int((octets[0] != octets[1]).any(axis=1).sum())
    comparison = bits.compare(reference=left, optimized=right)[0]
    assert comparison.mismatches == expected == sum(comparison.kinds.values())
    assert comparison.equal == (expected == 0) == bits.same_bits(left, right)


@few
@given(array=finite(*formats.FLOATS))
def test_a_change_of_the_sign_of_zero_is_never_rounding(array: Array) -> None:
    zero = np.zeros_like(array)
    comparison = bits.compare(reference=zero, optimized=array)[0]
    signed = (formats.exact(array) == 0) & np.signbit(formats.exact(array))
    assert comparison.kinds.get("sign of zero", 0) == signed.sum()
    assert comparison.mismatches == ((formats.exact(array) != formats.exact(zero)) | signed).sum()
