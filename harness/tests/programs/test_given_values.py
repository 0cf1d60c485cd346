"""Arrays that are given: the first draw is the array, and variations show what its values hide."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from samebits.errors import DeclarationError
from samebits.numerics.bits import same_bits
from samebits.numerics.seeds import generator
from samebits.programs.inputs import SPREAD, given_array, keeps_places, records, redrawn, variation
from samebits.programs.like import like
from samebits.schema.case import Case
from samebits.schema.meshes import MeshSpec
from samebits.schema.pair import Pair
from samebits.schema.values import Given


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
