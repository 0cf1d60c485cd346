"""What a values function may give: the declared shape, and values that the dtype has."""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from samebits.errors import DeclarationError
from samebits.programs.inputs import dtype_of, made_array

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
