"""Two functions at inputs beyond those that are given or drawn."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

import samebits
from tests.functions import specimens as f


def test_a_threshold_that_the_arrays_do_not_reach_is_told() -> None:
    compared = samebits.check(jax.nn.relu, jax.nn.relu6, f.rows(), gradients=False)
    assert compared.verdict == "bitwise" and compared.ok
    assert "not so at other inputs: out[" in str(compared) and "64 times as large" in str(compared)
    with pytest.raises(AssertionError, match="with the inputs 64 times as large"):  # of arrays that are not given
        samebits.assert_same(jax.nn.relu, jax.nn.relu6, jax.ShapeDtypeStruct((4, 8), jnp.float32), gradients=False)
