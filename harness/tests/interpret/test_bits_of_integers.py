"""`bitcast_convert_type` between integers of different widths, beside what jax gives."""

from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax

import samebits
from samebits.interpret.arrays import evaluate
from samebits.interpret.equation import Step
from samebits.numerics.floats import width

BYTES = np.arange(256, dtype=np.uint8).reshape(2, 16, 8)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("uint8", "int4"),
        ("int8", "uint4"),
        ("int4", "uint8"),
        ("uint4", "int4"),
        ("int4", "uint4"),
        ("uint16", "int4"),
        ("uint8", "int8"),
        ("uint8", "uint32"),
        ("int32", "uint8"),
        ("int16", "uint32"),
    ],
)
def test_the_bits_are_those_of_jax(before: str, after: str) -> None:
    old, new = (np.dtype(getattr(ml_dtypes, name, name)) for name in (before, after))
    joined = max(1, width(new) // width(old))
    values: Any = BYTES.astype(old).reshape(-1, joined)
    values = values[:, 0] if joined == 1 else values

    def cast(x: Any) -> Any:
        return lax.bitcast_convert_type(x, new)

    (equation,) = jax.make_jaxpr(cast)(values).jaxpr.eqns
    (array,) = evaluate(Step.of(equation), [values])
    expected = np.asarray(cast(jnp.asarray(values)))
    assert array.dtype == expected.dtype and array.shape == expected.shape
    assert np.array_equal(array.astype(np.int64), expected.astype(np.int64))


def test_packed_weights_unpacked_by_shifts_and_by_a_bitcast() -> None:
    def shifted(x: Any, packed: Any) -> Any:
        low, high = (packed << 4).astype(jnp.int8) >> 4, packed.astype(jnp.int8) >> 4
        return x @ jnp.stack([low, high], 1).reshape(-1, packed.shape[1]).astype(x.dtype)

    def cast(x: Any, packed: Any) -> Any:
        weights = lax.bitcast_convert_type(packed, jnp.int4)
        return x @ weights.transpose(0, 2, 1).reshape(-1, packed.shape[1]).astype(x.dtype)

    x = jax.ShapeDtypeStruct((4, 8), np.float32)
    compared = samebits.check(shifted, cast, x, jax.ShapeDtypeStruct((4, 6), np.uint8))
    assert compared.ok, compared
    assert repr(compared).count("the same formulas") == len(compared.leaves) == 2
