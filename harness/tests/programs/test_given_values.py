"""Arrays that are given: the first draw is the array, and variations show what its values hide."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from samebits.errors import DeclarationError
from samebits.numerics.bits import same_bits
from samebits.numerics.seeds import generator
from samebits.programs.given_values import given_array, variation
from samebits.programs.inputs import records
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


def test_under_vmap_there_are_copies() -> None:
    given = Given(array=np.ones(3, np.float32), copies=2)
    assert given_array(given, (2, 3), np.dtype(np.float32), "here").shape == (2, 3)


def test_another_shape_is_one_line() -> None:
    with pytest.raises(DeclarationError, match=r"here: the given array has shape \(3,\); expected \(4,\)"):
        given_array(Given(array=np.ones(3)), (4,), np.dtype(np.float32), "here")
