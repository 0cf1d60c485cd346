"""Values that say nothing: without elements, constant, or gradients of zeros."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from samebits.check.outcome import says_nothing

DTYPES = (np.float32, ml_dtypes.bfloat16, ml_dtypes.float4_e2m1fn, np.complex64, np.complex128)


@pytest.mark.parametrize("dtype", DTYPES)
def test_zeros_and_constants_say_nothing_in_every_dtype(dtype: Any) -> None:
    zeros, ones = np.zeros((4, 2), dtype), np.ones((4, 2), dtype)
    signed = np.array([0.0, -0.0], np.float32).astype(dtype)
    assert says_nothing([zeros, signed], "x", "gradient") is not None
    assert says_nothing([zeros, ones], "x", "gradient") is None
    assert says_nothing([ones, signed], "out", "forward") is not None
    assert says_nothing([ones, np.arange(4).astype(dtype)], "out", "forward") is None
    assert says_nothing([zeros[:0]], "out", "forward") is not None


def test_either_part_of_a_complex_number_counts() -> None:
    imaginary = np.array([0j, 1j], np.complex64)
    assert says_nothing([imaginary], "x", "gradient") is None
    assert says_nothing([imaginary], "out", "forward") is None


@pytest.mark.parametrize("direction", ["forward", "gradient"])
def test_one_number_that_is_nowhere_finite_says_nothing(direction: str) -> None:
    """A loss with the root of a drawn argument: two other formulas would have equal bits."""
    nan, infinite, one = (np.float32(number) for number in (np.nan, np.inf, 1))
    for arrays in ([nan, nan], [infinite, nan]):
        assert "infinite or NaN at every input" in str(says_nothing([np.asarray(a) for a in arrays], "out", direction))
    assert says_nothing([np.asarray(nan), np.asarray(one)], "out", direction) is None
