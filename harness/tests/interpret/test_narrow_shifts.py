"""Shifts of integers narrower than a byte are those that jax computes."""

import jax
import numpy as np
import pytest

from samebits.interpret.arrays import ARITHMETIC


@pytest.mark.parametrize("dtype", ["int4", "uint4", "int2", "uint2"])
@pytest.mark.parametrize("name", ["shift_left", "shift_right_arithmetic", "shift_right_logical"])
def test_a_shift_is_what_jax_computes(name: str, dtype: str) -> None:
    count = 16 if dtype.endswith("4") else 4
    values = np.arange(count).astype("uint8").astype(dtype)
    for distance in range(2 if count == 4 else 4):
        by = np.full(count, distance).astype(dtype)
        expected = np.asarray(getattr(jax.lax, name)(values, by))
        shifted = ARITHMETIC[name](None, values, by)
        assert shifted.dtype == expected.dtype
        assert np.array_equal(shifted.astype(int), expected.astype(int))
