"""What a declaration says of the numbers of an argument."""

from typing import Any

import numpy as np
import pytest

from samebits import Arg, Case, Integers, Normal, Uniform
from samebits.prove.problem import input_of
from samebits.schema.values import Given

CASE = Case(id="small", sizes={"experts": 4})
FLOATS = np.random.default_rng(1).standard_normal(8).astype(np.float32)
ONES = np.ones(8, np.float32)
INTEGERS = np.arange(8, dtype=np.int32)

ARGUMENTS: dict[str, tuple[Arg, Any, str, tuple[int, int] | None]] = {
    "floats": (Arg(shape=(8,)), FLOATS, "all", None),
    "floats of a distribution": (Arg(shape=(8,), values=Normal(scale=0.02)), FLOATS, "stated", None),
    "floats of a range": (Arg(shape=(8,), values=Uniform()), FLOATS, "stated", None),
    "floats that are made": (Arg(shape=(8,), values=lambda rng, shape: FLOATS), FLOATS, "stated", None),
    "floats that are given": (Arg(shape=(8,), values=Given(array=FLOATS)), FLOATS, "given", None),
    "ones that are given": (Arg(shape=(8,), values=Given(array=ONES)), ONES, "stated", None),
    "integers": (Arg(shape=(8,), dtype="int32"), INTEGERS, "all", (-(2**31), 2**31 - 1)),
    "integers of a range": (Arg(shape=(8,), values=Integers(low=2, high=9, also=(-1,))), INTEGERS, "all", (-1, 8)),
    "integers below": (Arg(shape=(8,), dtype="int32", below="experts"), INTEGERS, "all", (0, 3)),
    "integers without a choice": (Arg(shape=(8,), dtype="int32", equals="index0"), INTEGERS, "stated", None),
    "given integers": (Arg(shape=(8,), dtype="int32", values=Given(array=INTEGERS)), INTEGERS, "given", None),
    "all there are": (
        Arg(shape=(8,), dtype="int32", values=Given(array=INTEGERS, exactly=True)),
        INTEGERS,
        "stated",
        None,
    ),
    "given words of a key": (
        Arg(shape=(2,), dtype="uint32", values=Given(array=INTEGERS[:2])),
        np.zeros(2, np.uint32),
        "stated",
        None,
    ),
    "a given integer": (Arg(shape=(), dtype="int32", values=Given(array=INTEGERS)), np.int32(5), "given", None),
    "booleans": (Arg(shape=(8,), dtype="bool"), INTEGERS > 3, "all", (0, 1)),
    "keys": (Arg(shape=(), dtype="key<fry>"), np.zeros(2, np.uint32), "stated", None),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_what_is_stated_of_an_argument(name: str) -> None:
    arg, array, magnitudes, integers = ARGUMENTS[name]
    argument = input_of("x", arg, np.asarray(array), CASE)
    assert argument.magnitudes == magnitudes
    if integers is not None:
        assert argument.integers == integers
