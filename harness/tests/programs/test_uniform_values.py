"""Floats of a stated range."""

import ml_dtypes
import numpy as np
import pytest

from samebits import Uniform
from samebits.errors import DeclarationError
from samebits.programs.inputs import uniform_array

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
