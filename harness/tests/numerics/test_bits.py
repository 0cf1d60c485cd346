"""`compare`: which differences it reports, their names, and their explanations."""

import importlib
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from samebits.errors import CouldNotRun, NothingCompared
from samebits.numerics import bits, floats
from samebits.numerics.difference_kinds import KINDS
from tests.numerics import formats
from tests.numerics.formats import Array
from tests.numerics.planted_bits import PLANTED, Planted


def check(planted: Planted, module: Any = bits) -> None:
    """One planted fault is found, at its place, under its name; swapped sides are found too."""
    comparison = module.compare(reference=planted.reference, optimized=planted.optimized)[0]
    assert not comparison.equal
    assert comparison.kind == planted.kind
    assert comparison.mismatches == planted.mismatches
    assert comparison.max_ulp == planted.max_ulp
    assert comparison.detail == planted.detail
    assert (comparison.witness.index if comparison.witness else None) == planted.index
    assert module.compare(reference=planted.optimized, optimized=planted.reference)[0].kind == planted.kind
    for side in (planted.reference, planted.optimized):
        assert all(leaf.equal for leaf in module.compare(reference=side, optimized=side))


@pytest.mark.parametrize("name", PLANTED)
def test_planted_fault_is_found(name: str) -> None:
    check(PLANTED[name])


@pytest.mark.parametrize("name", ["float32", "bfloat16", "float64", "complex64", "int8"])
def test_blocks_of_any_length_are_explained_as_one(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every class, its first element and its largest distance come from the whole array."""
    dtype = formats.dtype_of(name)
    octets = np.random.default_rng(0).integers(0, 256, (2, 400 * dtype.itemsize), np.uint8)
    octets[1, : 200 * dtype.itemsize] = octets[0, : 200 * dtype.itemsize] ^ (np.arange(200 * dtype.itemsize) % 9 == 0)
    reference, variant = (row.view(dtype).reshape(20, 20) for row in octets)
    whole = bits.compare(reference=reference, optimized=variant)[0]
    assert whole.mismatches > 200 and len(whole.kinds) > (2 if floats.is_float(dtype) else 0)
    for length in (1, 7, 399):
        monkeypatch.setattr(bits, "_BLOCK", length)
        assert bits.compare(reference=reference, optimized=variant)[0] == whole


def test_every_class_has_a_planted_fault() -> None:
    assert {planted.kind for planted in PLANTED.values()} == set(KINDS)


# --- every dtype -------------------------------------------------------------------------------------------------


def held_by_jax(name: str) -> bool:
    """Whether this jax takes the dtype at all."""
    try:
        jax.device_put(np.zeros(1, formats.dtype_of(name)))
    except (RuntimeError, TypeError):
        return False
    return True


def test_the_list_of_dtypes_is_jax_s() -> None:
    """A dtype that a newer jax brings must be added to `formats.DTYPES`."""
    with jax.enable_x64(True):
        offered = {np.dtype(kind.dtype).name for kind in vars(jnp).values() if isinstance(kind, type(jnp.float32))}
        held = {name for name in offered if held_by_jax(name)}
    assert held <= set(formats.DTYPES)
    assert set(formats.DTYPES) - held <= set(formats.NEEDS_NEWER_JAX)


@pytest.mark.parametrize("name", formats.DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (4, 0), (7,), (3, 5)])
def test_a_jax_array_equals_the_array_it_was_made_from(name: str, shape: tuple[int, ...]) -> None:
    array = formats.random_bytes(name, shape)
    with jax.enable_x64(True):
        if not held_by_jax(name):
            pytest.skip(f"jax {jax.__version__} does not hold {name}")
        on_device = jax.device_put(array)
        comparison = bits.compare(reference=array, optimized=on_device)[0]
    assert comparison.equal and comparison.elements == array.size and comparison.max_ulp == 0


@pytest.mark.parametrize("name", formats.DTYPES)
@pytest.mark.parametrize("shape", [(), (7,), (3, 5)])
def test_one_flipped_bit_is_found_in_every_dtype(name: str, shape: tuple[int, ...]) -> None:
    array = formats.random_bytes(name, shape)
    flip = 1 if name == "bool" else 1 << (min(formats.bits_of(name), 64) - 1)
    other = array.copy()
    word = other.reshape(-1).view(f"u{min(array.itemsize, 8)}")
    word[-1] ^= flip
    comparison = bits.compare(reference=array, optimized=other)[0]
    assert not comparison.equal
    assert comparison.mismatches == 1 == sum(comparison.kinds.values())
    assert comparison.witness is not None and comparison.witness.index == tuple(size - 1 for size in shape)


@pytest.mark.parametrize("name", [*formats.SUBBYTE_INTEGERS, "float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn"])
def test_unused_bits_of_a_byte_do_not_count(name: str) -> None:
    array = formats.all_patterns(name)
    spoilt = (array.view(np.uint8) | np.uint8(256 - (1 << formats.bits_of(name)))).view(array.dtype)
    assert array.tobytes() != spoilt.tobytes()
    assert bits.same_bits(array, spoilt)
    assert bits.compare(reference=array, optimized=spoilt)[0].equal


def test_a_gradient_without_bits_is_compared_by_its_shape() -> None:
    nothing = np.zeros(3, jax.dtypes.float0)
    assert bits.compare(reference=nothing, optimized=nothing.copy())[0].equal
    assert bits.compare(reference=nothing, optimized=nothing[:2])[0].kind == "shape"
    assert bits.compare(reference=nothing, optimized=np.zeros(3, bool))[0].kind == "dtype"


def test_the_order_of_bytes_in_memory_does_not_count() -> None:
    array = np.arange(5, dtype=np.float32)
    assert bits.compare(reference=array, optimized=array.astype(">f4"))[0].equal
    assert bits.compare(reference=array, optimized=array.astype(">f4") + 1)[0].mismatches == 5


@pytest.mark.parametrize("value", ["text", object(), np.array(["a"]), np.longdouble(1), jnp])
def test_what_is_not_numbers_is_refused(value: Any) -> None:
    with pytest.raises(CouldNotRun, match=r"has no bits to compare; return arrays of numbers in dicts"):
        bits.compare(reference=value, optimized=value)


def test_a_random_key_is_refused_with_the_way_out() -> None:
    message = (
        "a leaf of type PRNGKeyArray and dtype key<fry> has no bits to compare; return arrays of numbers in dicts, "
        "tuples and lists (jax.random.key_data of a random key)"
    )
    with pytest.raises(CouldNotRun, match=f"^{re.escape(message)}$"):
        bits.Leaf.of(jax.random.key(0))


# --- weak types ----------------------------------------------------------------------------------------------------


def test_a_weak_type_is_a_difference() -> None:
    weak, strong = jnp.asarray(1.0), jnp.asarray(1.0, jnp.float32)
    assert weak.dtype == strong.dtype and bool(weak == strong)
    comparison = bits.compare(reference=strong, optimized=weak)[0]
    assert comparison.kind == "weak type"
    assert comparison.detail == "reference=False, variant=True"
    assert bits.compare(reference=weak, optimized=jnp.asarray(1.0))[0].equal


def test_no_difference_of_values_hides_behind_a_weak_type() -> None:
    comparison = bits.compare(reference=jnp.asarray(1.0, jnp.float32), optimized=jnp.asarray(2.0))[0]
    assert comparison.kinds == {"weak type": 1, "other": 1}
    assert comparison.kind == "other"
    assert str(comparison.witness) == "out: reference=1 (0x3f800000), variant=2 (0x40000000)"


# --- trees -----------------------------------------------------------------------------------------------------------


def test_each_leaf_has_its_own_path_and_result() -> None:
    tree = {"rows": (np.zeros(2), [np.zeros(3), None]), "count": 7}
    other = {"count": 7, "rows": (np.zeros(2), [np.array([0.0, 0.0, 1.0]), None])}
    found = bits.compare(reference=tree, optimized=other)
    assert [one.path for one in found] == ["out['count']", "out['rows'][0]", "out['rows'][1][0]"]
    assert [one.equal for one in found] == [True, True, False]
    assert str(found[2].witness) == (
        "out['rows'][1][0][2]: reference=0.0 (0x0000000000000000), variant=1.0 (0x3ff0000000000000)"
    )


def test_paths_are_those_of_jax() -> None:
    tree = {"b": (1, [2, None, {"z": 3, "a": 4}]), "a": 5}
    expected = [("out" + jax.tree_util.keystr(p), leaf) for p, leaf in jax.tree_util.tree_leaves_with_path(tree)]
    assert list(bits.paths(tree)) == expected


@pytest.mark.parametrize("tree", [None, (), [], {}, (None, {"a": ()})])
def test_comparing_no_leaf_is_an_error(tree: Any) -> None:
    with pytest.raises(NothingCompared, match=r"^'out' has no leaves; the reference must return at least one array$"):
        bits.compare(reference=tree, optimized=tree)


def test_sides_cannot_be_swapped_by_position() -> None:
    with pytest.raises(TypeError, match="positional"):
        bits.compare(np.zeros(1), np.zeros(1))  # type: ignore[call-arg]


# --- fast first, explanation only after a failure --------------------------------------------------------------------


def test_equal_arrays_are_never_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    explained: list[str] = []
    original = bits._explain

    def watched(path: str, a: Array, b: Array) -> bits.Comparison:
        explained.append(path)
        return original(path, a, b)

    monkeypatch.setattr(bits, "_explain", watched)
    equal, other = np.full(9, np.nan, np.float32), np.zeros(9, np.float32)
    bits.compare(reference=(equal, other), optimized=(equal.copy(), other.copy()))
    assert explained == []
    bits.compare(reference=(equal, other), optimized=(equal.copy(), other + 1))
    assert explained == ["out[1]"], "the watch must be able to see an explanation"


def test_equal_arrays_are_never_put_on_the_number_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(array: Array) -> Array:
        raise RuntimeError("explained")

    monkeypatch.setattr(floats, "ordinals", refuse)
    array = np.arange(9, dtype=np.float32)
    assert bits.compare(reference=array, optimized=array.copy())[0].equal
    with pytest.raises(RuntimeError, match="explained"):
        bits.compare(reference=array, optimized=array + 1)


# --- what the usual asserts do not see -------------------------------------------------------------------------------

chex: Any = importlib.import_module("chex")  # it has no types
PEERS = {"numpy": np.testing.assert_array_equal, "chex": chex.assert_trees_all_equal}
UNSEEN = ("sign of zero", "sign of zero, 0-d", "NaN payload", "sign of NaN", "dtype", "dtype of equal bits")


@pytest.mark.parametrize("peer", PEERS)
@pytest.mark.parametrize("name", UNSEEN)
def test_the_usual_exact_asserts_pass_what_is_reported_here(peer: str, name: str) -> None:
    PEERS[peer](PLANTED[name].reference, PLANTED[name].optimized)
    check(PLANTED[name])


@pytest.mark.parametrize("peer", PEERS)
def test_the_usual_asserts_pass_a_weak_type_and_a_broadcast(peer: str) -> None:
    strong, weak = jnp.asarray(1.0, jnp.float32), jnp.asarray(1.0)
    PEERS[peer](strong, weak)
    PEERS[peer](np.float32(1), np.ones(3, np.float32))
    assert bits.compare(reference=strong, optimized=weak)[0].kind == "weak type"
    assert bits.compare(reference=np.float32(1), optimized=np.ones(3, np.float32))[0].kind == "shape"


def test_the_usual_ulp_asserts_count_infinity_as_a_number() -> None:
    largest, infinity = np.array([np.finfo(np.float32).max]), np.array([np.inf], np.float32)
    np.testing.assert_array_max_ulp(largest, infinity, maxulp=1)
    chex.assert_trees_all_close_ulp(largest, infinity, maxulp=1)
    comparison = bits.compare(reference=largest, optimized=infinity)[0]
    assert (comparison.kind, comparison.max_ulp) == ("overflow to infinity", None)


@pytest.mark.parametrize("peer", PEERS)
def test_the_usual_exact_asserts_can_fail(peer: str) -> None:
    with pytest.raises(AssertionError):
        PEERS[peer](PLANTED["wrong value"].reference, PLANTED["wrong value"].optimized)


# --- what is said ----------------------------------------------------------------------------------------------------


def test_a_leaf_with_many_differences_counts_each_class() -> None:
    reference = np.array([0.0, 1.0, 1.0, np.nan, 5.0], np.float32)
    optimized = np.array([-0.0, np.nextafter(np.float32(1), np.float32(2)), np.inf, 1.0, 5.0], np.float32)
    comparison = bits.compare(reference=reference, optimized=optimized)[0]
    assert comparison.kinds == {
        "NaN vs number": 1,
        "overflow to infinity": 1,
        "rounding": 1,
        "sign of zero": 1,
    }
    assert (comparison.kind, comparison.mismatches, comparison.max_ulp) == ("NaN vs number", 4, 1)
    assert comparison.witness is not None and comparison.witness.index == (3,)


# Properties of the comparison and of the order of floats, on arbitrary bits, shapes and layouts.
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
