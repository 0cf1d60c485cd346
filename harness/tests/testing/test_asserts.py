"""`assert_same_bits` sees every difference of bits, names it, and accepts what has the same bits."""

import re
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from ml_dtypes import bfloat16

from samebits import assert_same_bits
from samebits.errors import CouldNotRun, NothingCompared

ONE = np.ones(3, np.float32)
QUIET = np.array([0x7FC00000, 0x3F800000], np.uint32).view(np.float32)
OTHER_NAN = np.array([0x7FC00001, 0x3F800000], np.uint32).view(np.float32)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (ONE, ONE.copy()),
        (QUIET, QUIET.copy()),
        (np.float32(-0.0), np.array(-0.0, np.float32)),
        (np.zeros((0, 4)), np.zeros((0, 4))),
        ({"a": ONE, "b": (QUIET, 1)}, {"b": (QUIET, 1), "a": ONE}),
    ],
)
def test_the_same_bits_pass(found: Any, expected: Any) -> None:
    assert_same_bits(found, expected)


FAULTS: dict[str, tuple[Any, Any, str]] = {
    "zero of the other sign": (
        np.array([1, -0.0], np.float32),
        np.array([1, 0.0], np.float32),
        "out[1]: found -0 (0x80000000), expected 0 (0x00000000); 1 of 2 elements is a zero of the other sign",
    ),
    "dtype": (ONE.astype(np.float64), ONE, "out: another dtype: expected float32, found float64"),
    "NaN payload": (
        OTHER_NAN,
        QUIET,
        "out[0]: found nan (0x7fc00001), expected nan (0x7fc00000); 1 of 2 elements is NaN with other bits",
    ),
    "NaN for a number": (
        np.array([1, np.nan], np.float32),
        np.array([1, 2], np.float32),
        "out[1]: found nan (0x7fc00000), expected 2 (0x40000000); 1 of 2 elements is NaN for a number",
    ),
    "shape": (ONE, ONE[:, None], "out: another shape: expected (3, 1), found (3,)"),
    "a scalar for an array": (np.float32(1), ONE, "out: another shape: expected (3,), found ()"),
    "last bit": (
        np.nextafter(ONE, np.float32(2)),
        ONE,
        "out[0]: found 1.00000012 (0x3f800001), expected 1 (0x3f800000); "
        "3 of 3 elements differ by rounding (up to 1 ulp)",
    ),
    "integers": (
        np.array([[1, 2], [3, 5]]),
        np.array([[1, 2], [3, 4]]),
        "out[1, 1]: found 5 (0x0000000000000005), expected 4 (0x0000000000000004)",
    ),
    "structure": ({"a": ONE}, {"b": ONE}, "out: another structure: expected "),
    "a list for an array": ([1.0, 1.0], np.ones(2), "out: another structure: expected "),
    "one leaf of two": (
        {"a": ONE, "b": ONE},
        {"a": ONE, "b": -ONE},
        "out['b'][0]: found 1 (0x3f800000), expected -1 (0xbf800000)",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_difference_is_named(name: str) -> None:
    found, expected, message = FAULTS[name]
    with pytest.raises(AssertionError, match=f"^{re.escape(message)}"):
        assert_same_bits(found, expected)
    with pytest.raises(AssertionError):
        assert_same_bits(expected, found)


@pytest.mark.parametrize("name", ["zero of the other sign", "dtype", "NaN payload", "a scalar for an array"])
def test_numpy_sees_none_of_these(name: str) -> None:
    found, expected, _ = FAULTS[name]
    np.testing.assert_array_equal(found, expected)


def test_arrays_of_jax_are_compared_with_arrays_of_numpy() -> None:
    assert_same_bits(jnp.ones(3), ONE)
    assert_same_bits(ONE.astype(bfloat16), jnp.ones(3, jnp.bfloat16))
    with pytest.raises(AssertionError, match=r"^out: another weak type: expected False, found True$"):
        assert_same_bits(jnp.asarray(1.0), np.float32(1))


def test_every_leaf_that_differs_has_a_line_under_the_given_name() -> None:
    with pytest.raises(AssertionError) as caught:
        assert_same_bits((ONE, ONE, 2 * ONE), (-ONE, ONE, ONE), name="gradient")
    lines = str(caught.value).splitlines()
    assert [line.partition(":")[0] for line in lines] == ["gradient[0][0]", "gradient[2][0]"]


def test_nothing_is_not_equal_to_nothing() -> None:
    with pytest.raises(NothingCompared):
        assert_same_bits({}, {})
    with pytest.raises(CouldNotRun, match="has no bits to compare"):
        assert_same_bits(np.array(["a"]), np.array(["a"]))
