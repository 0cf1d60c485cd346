"""A value in a few words: never the elements of an array."""

import math
from typing import Any

import numpy as np
import pytest

from samebits.schema.validate import kind_words


class _Layer:
    """Not callable."""


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (np.zeros((4, 8), np.float32), "an array float32[4,8]"),
        (np.float64(3), "an array float64[]"),
        (3, "3, an int"),
        (True, "True, a bool"),
        ("x" * 99, f"'{'x' * 36}..., a str"),
        (None, "None"),
        ({"w": np.zeros(999)}, "a dict of 1 entry"),
        ([1, 2], "a list of 2 entries"),
        (math, "the module math"),
        (_Layer, "the class _Layer"),
        (_Layer(), "an object of the class _Layer"),
    ],
)
def test_a_value_in_a_few_words(value: Any, words: str) -> None:
    assert kind_words(value) == words
