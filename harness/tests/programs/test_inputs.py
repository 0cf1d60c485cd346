"""Inputs: reproducible by name, distinct, with special values where they are declared."""

import dataclasses
import sys
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from samebits import Uniform
from samebits.errors import DeclarationError
from samebits.numerics import floats
from samebits.numerics.bits import same_bits
from samebits.numerics.seeds import generator
from samebits.programs.inputs import (
    COTANGENTS,
    SPREAD,
    arg_below,
    arg_equals,
    check_values,
    cotangent,
    drawn_values,
    dtype_of,
    equal_array,
    given_array,
    keeps_places,
    made_array,
    plant_specials,
    records,
    redrawn,
    special_values,
    uniform_array,
    variation,
)
from samebits.programs.like import like
from samebits.schema.case import SPECIALS, Arg, Case
from samebits.schema.meshes import MeshSpec
from samebits.schema.pair import Pair
from samebits.schema.values import Given, Integers
from tests.support.toys import toy

MESH = MeshSpec.parse("data4")


def pair_with(arg: Arg, **sizes: int) -> Pair:
    """A toy with this argument."""
    case = Case(id="small", sizes=sizes or {"rows": 8, "columns": 16})
    return dataclasses.replace(toy(), args={"x": arg}, cases=(case,))


def ordinary(arg: Arg, dtype: str = "float32") -> np.ndarray:
    """The ordinary record's only array."""
    pair = pair_with(arg)
    return records(pair, pair.cases[0], dtype, MESH)["ordinary"]["x"]


def test_pinned_so_that_inputs_cannot_drift() -> None:
    """A change of the generator would silently change every case."""
    array = ordinary(Arg(shape=("rows", "columns")))
    assert [hex(int(b)) for b in floats.raw_bits(array)[0, :3]] == PINNED


INFINITE = [np.inf, -np.inf, np.nan, np.inf] * 2
PINNED = ["0x3ce7b66f", "0xc0036fed", "0xbdd37ca4"]


def test_values_depend_on_names_and_on_nothing_else() -> None:
    """The same names give the same bits; another case, dtype or argument gives others."""
    assert generator("a", "b").integers(1 << 60) == generator("a", "b").integers(1 << 60)
    assert generator("a", "b").integers(1 << 60) != generator("a/b", "").integers(1 << 60)
    pair = toy()
    one = records(pair, pair.cases[0], "float32", MESH)["ordinary"]["x"]
    two = records(pair, pair.cases[0], "float32", MeshSpec.parse("data2"))["ordinary"]["x"]
    assert one.tobytes() == two.tobytes()


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64", "int32", "int64", "uint32"])
def test_values_are_distinct(dtype: str) -> None:
    """128 elements, 128 values; so a swap of any two shows."""
    assert len(np.unique(ordinary(Arg(shape=("rows", "columns")), dtype))) == 128


def test_bfloat16_values_are_distinct_where_there_is_room() -> None:
    """128 of the 2048 numbers between 2^-6 and 4; and they still look normal."""
    array = ordinary(Arg(shape=("rows", "columns")), "bfloat16").astype(np.float64)
    assert len(np.unique(array)) == 128
    assert abs(array.mean()) < 0.3
    assert 0.7 < array.std() < 1.3


def test_records_are_read_only() -> None:
    """Both sides get the same record; a side that writes into it would raise."""
    with pytest.raises(ValueError, match="read-only"):
        ordinary(Arg(shape=("rows", "columns")))[0, 0] = 1


def test_special_values_form_a_second_record() -> None:
    """All seven kinds, two NaN payloads among them, planted in a copy."""
    pair = pair_with(Arg(shape=("rows", "columns"), special=SPECIALS))
    found = records(pair, pair.cases[0], "bfloat16", MESH)
    assert set(found) == {"ordinary", "special"}
    bits = {int(b) for b in floats.raw_bits(found["special"]["x"]).reshape(-1)}
    assert bits >= {0x8000, 0x7FC0, 0xFFC1, 0x7F80, 0xFF80, 0x0001, 0x7F7F}
    assert not np.isnan(found["ordinary"]["x"].astype(np.float32)).any()


@pytest.mark.parametrize(
    "name", ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e8m0fnu", "float4_e2m1fn", "float16"]
)
def test_formats_get_the_special_values_that_they_have(name: str) -> None:
    """No infinity is invented for a format without one, and a NaN is a NaN."""
    dtype = dtype_of(name)
    values = special_values(dtype, ("nan", "nan_payload", "inf", "-inf"))
    assert all(np.isnan(v) or np.isinf(v) for v in values)
    if name == "float8_e4m3fn":
        assert not np.isinf(values.astype(np.float32)).any()


def test_integer_specials_are_the_bounds() -> None:
    """And 0 and -1."""
    assert special_values(np.int32, SPECIALS).tolist() == [-(2**31), 2**31 - 1, 0, -1]
    assert special_values(ml_dtypes.int4, SPECIALS).astype(int).tolist() == [-8, 7, 0, -1]


def test_specials_fit_into_small_arrays() -> None:
    """An array of three elements gets three of them."""
    planted = plant_specials(np.ones(3, np.float32), SPECIALS, generator("t"))
    assert np.sum(planted != 1) == 3


def test_integers_show_bounds_and_what_is_out_of_range() -> None:
    """Ids that a component defines although they are outside."""
    array = ordinary(Arg(shape=("rows", "columns"), values=Integers(high=10, also=(-1, 10, 17))))
    assert {0, 9, -1, 10, 17} <= set(array.reshape(-1).tolist())
    assert array.dtype == np.int32


@pytest.mark.parametrize("shape", [(), (1,)])
def test_a_scalar_takes_any_integer_of_its_range(shape: tuple[int, ...]) -> None:
    """There is no room for both bounds; further draws and other cases have other values."""
    pair = pair_with(Arg(shape=shape, values=Integers(low=2, high=9)))
    drawn = [records(pair, pair.cases[0], "float32", MESH, draw)["ordinary"]["x"] for draw in range(32)]
    assert {array.shape for array in drawn} == {shape}
    assert {int(array.reshape(())) for array in drawn} == set(range(2, 9))


def test_cotangents_are_random_scaled_one_hot_and_ones() -> None:
    """The scaled one is the random one times -3; the one-hot has a single 1; `sum()` pulls ones back."""
    random, scaled, hot, ones = (cotangent(kind, (4, 8), np.float32, "p", "c") for kind in COTANGENTS)
    assert np.array_equal(scaled, (random.astype(np.float64) * -3).astype(np.float32))
    assert sorted(hot.reshape(-1).tolist()) == [0.0] * 31 + [1.0]
    assert len(np.unique(random)) == 32
    assert ones.dtype == np.float32
    assert np.all(ones == 1)


@pytest.mark.parametrize(
    ("arg", "message"),
    [
        (Arg(shape=("rows", "depth")), "argument 'x' has a dimension 'depth' that is not in sizes (rows, columns)"),
        (Arg(shape=("rows", "columns"), values=lambda rng, shape: np.ones(shape)), "gave 128 equal values"),
        (Arg(shape=("rows",), values=lambda rng, shape: np.array(INFINITE)), "all elements of 'x' are infinite or NaN"),
        (
            Arg(shape=(8,), values=Given(array=np.array(INFINITE, np.float32))),
            "all elements of 'x' are infinite or NaN",
        ),
        (Arg(shape=("rows",), values=lambda rng, shape: np.ones((3,))), "gave shape (3,); expected (8,)"),
        (Arg(shape=(2,), values=Integers(high=9, also=(11, 12))), "too few for the values [0, 8, 11, 12]"),
        (Arg(shape=("rows",), dtype="float31"), "dtype 'float31' is unknown"),
    ],
)
def test_wrong_arguments_are_refused(arg: Arg, message: str) -> None:
    """With the case, the argument, and what was expected."""
    with pytest.raises(DeclarationError) as caught:
        ordinary(arg)
    assert message in str(caught.value)


def test_one_finite_number_among_infinities_is_enough() -> None:
    array = ordinary(Arg(shape=("rows",), values=lambda rng, shape: np.array([*INFINITE[:7], 2.0])))
    assert np.isfinite(array).sum() == 1


def test_an_infinite_array_beside_a_finite_one_is_accepted() -> None:
    """As the first maximum of a softmax in blocks is."""
    args = {"x": Arg(shape=("rows",)), "start": Arg(shape=(8,), values=Given(array=np.full(8, -np.inf, np.float32)))}
    pair = dataclasses.replace(pair_with(args["x"]), args=args)
    assert np.isinf(records(pair, pair.cases[0], "float32", MESH)["ordinary"]["start"]).all()


@pytest.mark.parametrize("dtype", ["int32", "int8", "uint8", "uint32", "int64"])
def test_the_low_bits_of_integers_are_tried(dtype: str) -> None:
    """Multiples of a power of two would hide `a & ~1`."""
    array = ordinary(Arg(shape=("rows", "columns")), dtype)
    assert len(np.unique(array)) == 128
    if array.itemsize > 1:
        assert all(0.2 < np.mean(array >> bit & 1) < 0.8 for bit in range(8))
    few = ordinary(Arg(shape=(4, 4)), dtype)
    assert len(np.unique(few)) == 16 and 0 < np.mean(few & 1) < 1


def test_special_values_of_complex_numbers_are_refused() -> None:
    with pytest.raises(DeclarationError, match=r"special values \(nan\) are of real numbers; got complex64"):
        ordinary(Arg(shape=("rows",), special=("nan",)), "complex64")


# --- arrays that are given: the first draw is the array, and variations show what its values hide --------------------


def _pair(**args: Any) -> Pair:
    return Pair(
        name="given",
        reference=lambda **arrays: arrays,
        variants={"other": lambda **arrays: dict(arrays)},
        args={name: like(array) for name, array in args.items()},
        cases=(Case(id="call"),),
        dtypes=("float32",),
    )


def _records(pair: Pair, draw: int = 0) -> dict[str, dict[str, Any]]:
    return records(pair, pair.cases[0], "float32", MeshSpec.parse("none"), draw)


def test_the_first_draw_is_the_array_and_one_variation() -> None:
    x = np.arange(6, dtype=np.float32)
    drawn = _records(_pair(x=x))
    assert list(drawn) == ["ordinary", "varied"]
    assert same_bits(drawn["ordinary"]["x"], x)
    assert not same_bits(drawn["varied"]["x"], x)
    again = _records(_pair(x=x))
    assert same_bits(drawn["varied"]["x"], again["varied"]["x"])


def test_further_draws_are_variations() -> None:
    x = np.arange(1, 7, dtype=np.float32)
    first, second = (_records(_pair(x=x), draw) for draw in (1, 2))
    arrays = [first["ordinary"]["x"], first["varied"]["x"], second["ordinary"]["x"], second["varied"]["x"], x]
    assert len({array.tobytes() for array in arrays}) == len(arrays)


def test_every_other_draw_of_zeros_is_nowhere_negative() -> None:
    """All arrays of zeros together: they may be second moments, under one root."""
    pair = _pair(first=np.zeros(32, np.float32), second=np.zeros(32, np.float32))
    signs = [
        {bool(np.any(array < 0)) for record in _records(pair, draw).values() for array in record.values()}
        for draw in range(1, 5)
    ]
    assert signs == [{False}, {True}, {False}, {True}]


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.float16, ml_dtypes.float8_e4m3fn])
def test_a_variation_keeps_signs_zeros_and_infinities(dtype: Any) -> None:
    array = np.array([0.0, -0.0, 1.0, -2.0, np.inf, np.nan], np.float64).astype(dtype)
    varied = variation(array, generator("test"))
    assert varied.dtype == array.dtype
    assert np.array_equal(np.signbit(varied), np.signbit(array))
    assert np.array_equal(varied == 0, array == 0)
    assert np.array_equal(np.isinf(varied), np.isinf(array))
    assert np.array_equal(np.isnan(varied), np.isnan(array))


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_equal_elements_become_distinct(value: float) -> None:
    varied = variation(np.full((4, 5), value, np.float32), generator("test"))
    assert len(np.unique(varied)) == varied.size


@pytest.mark.parametrize("array", [np.arange(5), np.array([True, False]), np.zeros(3, np.int8)])
def test_what_selects_is_not_varied(array: Any) -> None:
    assert same_bits(variation(array, generator("test")), array)


RANDOM = np.random.default_rng(3).normal(size=(8, 16)).astype(np.float32)
OFFSET = RANDOM + 40 * (np.arange(8) == 3)[:, None].astype(np.float32)
STRUCTURED = {
    "ones": np.ones((4, 5), np.float32),
    "a scalar": np.float32(2),
    "sorted": np.arange(12, dtype=np.float32),
    "symmetric": RANDOM[:, :8] + RANDOM[:, :8].T,
    "one-hot": np.eye(8, dtype=np.float32)[[3, 1, 2, 7]],
    "rows that add up to one": np.exp(RANDOM) / np.exp(RANDOM).sum(-1, keepdims=True),
    "a large diagonal": RANDOM[:, :8] + 50 * np.eye(8, dtype=np.float32),
    "with an infinity": np.array([[1.0, -np.inf, 2.0, 4.0, 0.5]], np.float32),
}


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.complex64])
def test_further_draws_of_random_numbers_are_in_another_order(dtype: Any) -> None:
    """Two numbers that cancel in the array do not cancel in each of its draws."""
    array = RANDOM.astype(dtype)
    first, second = (redrawn(array, generator("test", str(draw))) for draw in (1, 2))
    for drawn in (first, second):
        assert drawn.dtype == array.dtype
        assert same_bits(np.sort(drawn, axis=None), np.sort(array, axis=None))
        assert np.mean(drawn == array) < 0.2
    assert np.mean(first == second) < 0.2
    assert not keeps_places(Given(array=array))


@pytest.mark.parametrize("name", STRUCTURED)
def test_what_looks_structured_keeps_its_places(name: str) -> None:
    array = np.asarray(STRUCTURED[name])
    assert same_bits(redrawn(array, generator("test")), array)
    assert keeps_places(Given(array=array))


def test_a_row_of_other_numbers_keeps_them() -> None:
    """A loss of accuracy that only such a row shows would not be there in another order."""
    drawn = redrawn(OFFSET, generator("test"))
    assert same_bits(np.sort(drawn, axis=1), np.sort(OFFSET, axis=1))
    assert np.mean(drawn == OFFSET) < 0.3
    assert keeps_places(Given(array=OFFSET))


@pytest.mark.parametrize("array", [np.arange(5), np.array([True, False]), np.zeros((3, 4), np.float32)])
def test_what_does_not_move_is_as_it_was(array: Any) -> None:
    """Zeros are drawn anew by the variation; what selects is the same in all draws."""
    assert same_bits(redrawn(array, generator("test")), array)
    assert not keeps_places(Given(array=array))


def test_each_copy_has_its_own_order() -> None:
    drawn = redrawn(np.stack([RANDOM, RANDOM]), generator("test"), copies=2)
    assert np.mean(drawn[0] == drawn[1]) < 0.2


def test_a_first_draw_has_the_order_of_the_array() -> None:
    """Its variation too: bits that are compared are of what was given."""
    first, further = (_records(_pair(x=RANDOM), draw) for draw in (0, 1))
    for label in ("ordinary", "varied"):
        assert np.all(np.abs(first[label]["x"] - RANDOM) <= 1.01 * SPREAD * np.abs(RANDOM))
        assert not np.all(np.abs(further[label]["x"] - RANDOM) <= 1.01 * SPREAD * np.abs(RANDOM))


def test_under_vmap_there_are_copies() -> None:
    given = Given(array=np.ones(3, np.float32), copies=2)
    assert given_array(given, (2, 3), np.dtype(np.float32), "here").shape == (2, 3)


def test_another_shape_is_one_line() -> None:
    with pytest.raises(DeclarationError, match=r"here: the given array has shape \(3,\); expected \(4,\)"):
        given_array(Given(array=np.ones(3)), (4,), np.dtype(np.float32), "here")


# --- floats of a stated range ----------------------------------------------------------------------------------------

RNG = np.random.default_rng


def drawn(low: float, high: float, count: int, dtype: type) -> np.ndarray:
    return uniform_array(Uniform(low=low, high=high), RNG(3), (count,), np.dtype(dtype), "case 'a': argument 'x'")


@pytest.mark.parametrize("dtype", [np.float32, np.float64, ml_dtypes.bfloat16, np.float16, ml_dtypes.float8_e4m3fn])
def test_all_are_in_the_range_and_differ(dtype: type) -> None:
    array = drawn(0.25, 1.0, 12, dtype)
    numbers = array.astype(np.float64)
    assert array.dtype == dtype and numbers.min() >= 0.25 and numbers.max() <= 1.0
    assert len(set(numbers.tolist())) == 12


def test_a_range_with_too_few_numbers_repeats_them() -> None:
    numbers = drawn(1.0, 1.0625, 500, ml_dtypes.bfloat16).astype(np.float64)
    assert set(numbers.tolist()) <= {1 + place / 128 for place in range(9)}


def test_the_last_numbers_of_a_range_do_not_leave_it() -> None:
    # Nine numbers for nine elements: each once, although repeats only move upward at first.
    numbers = drawn(1.0, 1.0625, 9, ml_dtypes.bfloat16).astype(np.float64)
    assert sorted(numbers.tolist()) == [1 + place / 128 for place in range(9)]


@pytest.mark.parametrize(("low", "high"), [(1.0, 1.0), (2.0, 1.0), (0.0, float("inf")), (float("nan"), 1.0)])
def test_what_is_not_a_range_is_refused(low: float, high: float) -> None:
    with pytest.raises(DeclarationError, match="is not a range of floats; expected finite low < high"):
        Uniform(low=low, high=high)


def test_integers_are_refused() -> None:
    with pytest.raises(DeclarationError, match="argument 'x' is int32, and Uniform draws floats; give Integers"):
        drawn(0, 5, 4, np.int32)


@pytest.mark.parametrize(("low", "high"), [(0.0, 1e30), (1.0, 1.0001)])
def test_a_range_without_two_numbers_of_the_dtype_is_refused(low: float, high: float) -> None:
    with pytest.raises(DeclarationError, match="has no two numbers from"):
        drawn(low, high, 4, np.float16)


# --- what a values function may give: the declared shape, and values that the dtype has ------------------------------

Make = Callable[[np.random.Generator, tuple[int, ...]], Any]


def _made(make: Make, dtype: str) -> np.ndarray:
    return made_array(make, np.random.default_rng(0), (8,), dtype_of(dtype), "case 'small': argument 'x'")


@pytest.mark.parametrize(
    ("make", "dtype", "message"),
    [
        (lambda rng, shape: rng.random(shape) + 1j, "float32", "gave complex128; expected real numbers for float32"),
        (lambda rng, shape: np.array(list("abcdefgh")), "float32", "gave <U1, which is not float32: could not convert"),
        (lambda rng, shape: [None] * 8, "int32", "gave object, which is not int32"),
        (lambda rng, shape: np.full(shape, np.nan), "int32", "gave float64 with an infinity or a NaN, which int32"),
        (lambda rng, shape: np.full(shape, np.inf, np.float32), "uint8", "gave float32 with an infinity or a NaN"),
        (lambda rng, shape: sys.exit(3), "float32", "its values function raised SystemExit: 3"),
        (lambda rng, shape: rng.random((2, 4)), "float32", "gave shape (2, 4); expected (8,)"),
        (lambda rng, shape: 1e30 * (1 + rng.random(shape)), "float16", "gave 8 equal values"),
    ],
)
def test_what_the_argument_cannot_hold_is_one_line(make: Make, dtype: str, message: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        _made(make, dtype)
    assert str(caught.value).startswith("case 'small': argument 'x': its values function ")
    assert message in str(caught.value)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32", "bool", "complex64"])
def test_numbers_are_cast(dtype: str) -> None:
    assert _made(lambda rng, shape: 9 * rng.random(shape), dtype).dtype == dtype_of(dtype)


# What is declared of integers, a bound or what each of them equals: in a case, and values that break it.
CASE = Case(id="small", sizes={"rows": 8}, statics={"experts": 6, "name": "x"})


def ids(below: Any) -> Arg:
    return Arg(shape=("rows",), dtype="int32", values=Integers(high=6), below=below)


@pytest.mark.parametrize(
    ("below", "number"), [(None, None), (3, 3), ("rows", 8), ("experts", 6), ("rows+1", 9), ("2*experts - 3", 9)]
)
def test_a_bound_is_a_number_or_made_of_names(below: Any, number: int | None) -> None:
    assert arg_below(ids(below), "ids", CASE) == number


def test_a_name_that_there_is_not_is_rejected() -> None:
    for below in ("name", "columns"):
        with pytest.raises(
            DeclarationError, match=f"below '{below}', which is neither a size nor a static integer"
        ) as caught:
            arg_below(ids(below), "ids", CASE)
        assert "expected one of experts, rows" in str(caught.value)


def test_an_expression_that_cannot_be_is_rejected() -> None:
    with pytest.raises(DeclarationError, match=r"below 'rows\+columns', and 'columns' is neither a size nor a static"):
        arg_below(ids("rows+columns"), "ids", CASE)
    with pytest.raises(DeclarationError, match="below 'experts-6', which is 0; expected at least 1"):
        arg_below(ids("experts-6"), "ids", CASE)
    named = r"name the bound, as in below='half' with Case\(sizes={'n': 8, 'half': 4}, symbols={'n': '2\*half'}\)"
    with pytest.raises(DeclarationError, match=rf"shape \('rows',\): below is 'rows/2', which divides; {named}"):
        ids("rows/2")
    named = (
        r"name the bound, as in below='rest' with Case\(sizes={'n': 8, 'rest': 5, ...}, symbols={'n': 'own\+rest'}\)"
    )
    with pytest.raises(DeclarationError, match=rf"below is 'rows-own', which subtracts a symbol; {named}"):
        ids("rows-own")


@pytest.mark.parametrize(("rows", "expected"), [(8, {0, 5}), (2, {0, 5}), (1, set()), (0, set())])
def test_values_by_default_keep_the_bound_and_reach_both_ends(rows: int, expected: set[int]) -> None:
    """So that `Arg(dtype="int32", below=6)` is enough; without it they range over all of int32."""
    arg = Arg(shape=(rows,), dtype="int32", below=6)
    drawn = drawn_values(arg, "ids", np.random.default_rng(0), (rows,), np.dtype(np.int32), CASE)
    check_values(arg, "ids", drawn, CASE)
    assert drawn.dtype == np.int32 and expected <= set(drawn.tolist())


@pytest.mark.parametrize("values", [[0, 6], [-1, 5]])
def test_values_outside_of_a_bound_are_rejected(values: list[int]) -> None:
    check_values(ids("experts"), "ids", np.array([0, 5]), CASE)
    check_values(ids(None), "ids", np.array(values), CASE)
    with pytest.raises(
        DeclarationError, match=r"its values are -?\d to \d; expected them in \[0, 6\), as below='experts'"
    ):
        check_values(ids("experts"), "ids", np.array(values), CASE)


def placed(equals: Any, shape: tuple[int | str, ...] = ("rows", 3), **more: Any) -> Arg:
    return Arg(shape=shape, dtype="int32", equals=equals, **more)


@pytest.mark.parametrize(
    ("equals", "expected"),
    [
        (4, [[4, 4, 4], [4, 4, 4]]),
        ("index1", [[0, 1, 2], [0, 1, 2]]),
        ("3*index0 + index1", [[0, 1, 2], [3, 4, 5]]),
        ("rows - 1 - index0", [[7, 7, 7], [6, 6, 6]]),
        ("2 - index1*index1", [[2, 1, -2], [2, 1, -2]]),
        ("experts", [[6, 6, 6], [6, 6, 6]]),
    ],
)
def test_integers_without_a_choice_are_what_their_formula_says(equals: Any, expected: list[list[int]]) -> None:
    array = equal_array(placed(equals), "ids", (2, 3), np.dtype(np.int32), CASE)
    assert array.dtype == np.int32 and array.tolist() == expected
    drawn = drawn_values(placed(equals), "ids", np.random.default_rng(0), (2, 3), np.dtype(np.int32), CASE)
    assert drawn.tolist() == expected
    check_values(placed(equals), "ids", array, CASE)
    array[1, 2] += 1
    with pytest.raises(
        DeclarationError, match=rf"its element \[1, 2\] is {array[1, 2]}; expected {expected[1][2]}, as"
    ):
        check_values(placed(equals), "ids", array, CASE)


def test_copies_have_the_integers_of_one() -> None:
    arg = placed("3*index0 + index1", (2, 3)).stacked(2)
    assert (arg.shape, arg.equals) == ((2, 2, 3), "3*index1 + index2")
    assert placed(4).stacked(2).equals == 4


def test_a_formula_that_cannot_be_is_rejected() -> None:
    with pytest.raises(
        DeclarationError, match="equals 'columns', which is neither a size nor a static integer; expected one of"
    ):
        arg_equals(placed("columns"), "ids", CASE, {})
    sizes = Case(id="small", sizes={"rows": 8, "index1": 3})
    with pytest.raises(DeclarationError, match="and 'index1' is a size; give the size another name"):
        arg_equals(placed("index1"), "ids", sizes, {})
    with pytest.raises(DeclarationError, match="equals '40000', which is 40000 to 40000 and does not fit into int16"):
        equal_array(placed("40000"), "ids", (2, 3), np.dtype(np.int16), CASE)
    named = r"name the quotient, as in equals='part' with Case\(sizes={'n': 8, 'part': 4}, symbols={'n': '2\*part'}\)"
    with pytest.raises(DeclarationError, match=rf"equals is 'index0/2', which divides; {named}"):
        placed("index0/2")
