"""Inputs: reproducible by name, distinct, with special values where they are declared."""

import dataclasses

import ml_dtypes
import numpy as np
import pytest

from samebits.errors import DeclarationError
from samebits.numerics import floats
from samebits.numerics.seeds import generator
from samebits.programs.inputs import COTANGENTS, cotangent, dtype_of, plant_specials, records, special_values
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
