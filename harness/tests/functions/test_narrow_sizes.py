"""Indices and sizes as numbers of a narrow float: exact up to a size, which a proof for every size names."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import samebits

Side = Callable[..., Any]
SHORT = {"bfloat16": 256, "float16": 2048, "float8_e4m3fn": 16}


def places(x: Any, dtype: Any) -> Any:
    return jnp.arange(x.shape[0], dtype=dtype)


FAULTS: dict[str, tuple[Side, Side]] = {
    "positions": (
        lambda x, dtype: x + places(x, jnp.float32),
        lambda x, dtype: x + places(x, dtype).astype(jnp.float32),
    ),
    "cast positions": (
        lambda x, dtype: x + places(x, jnp.float32),
        lambda x, dtype: x + places(x, jnp.int32).astype(dtype).astype(jnp.float32),
    ),
    "rounded positions": (
        lambda x, dtype: x + places(x, jnp.float32),
        lambda x, dtype: x + places(x, jnp.float32).astype(dtype).astype(jnp.float32),
    ),
    "angles": (
        lambda x, dtype: x * jnp.cos(0.1 * places(x, jnp.float32)),
        lambda x, dtype: x * jnp.cos(0.1 * places(x, dtype).astype(jnp.float32)),
    ),
    "a slope": (
        lambda x, dtype: x - 0.5 * places(x, jnp.float32)[::-1],
        lambda x, dtype: x - 0.5 * places(x, dtype)[::-1].astype(jnp.float32),
    ),
    "weights of a sum": (
        lambda x, dtype: (x * places(x, jnp.float32)).sum(),
        lambda x, dtype: (x * places(x, dtype).astype(jnp.float32)).sum(),
    ),
    "a distance": (
        lambda x, dtype: jnp.abs(places(x, jnp.float32)[:, None] - places(x, jnp.float32)) * x,
        lambda x, dtype: jnp.abs((places(x, dtype)[:, None] - places(x, dtype)).astype(jnp.float32)) * x,
    ),
    "a number of rows": (
        lambda x, dtype: x - jnp.float32(1) * x.shape[0],
        lambda x, dtype: x - (jnp.zeros((), jnp.int32) + x.shape[0]).astype(dtype).astype(jnp.float32),
    ),
}
FAST = ("positions", "cast positions", "weights of a sum")


def family(reference: Side, variant: Side, dtype: str) -> str:
    x = jax.ShapeDtypeStruct((8,), jnp.float32)
    short = jnp.dtype(dtype)
    sides = (lambda x: reference(x, short), lambda x: variant(x, short))
    compared = samebits.prove(*sides, x, sizes="all", gradients=False)
    assert compared.verdict == "rounding"
    return str(compared)


@pytest.mark.parametrize(
    "fault", [each if each in FAST else pytest.param(each, marks=pytest.mark.slow) for each in FAULTS]
)
@pytest.mark.parametrize("dtype", ["bfloat16", *(pytest.param(d, marks=pytest.mark.slow) for d in list(SHORT)[1:])])
def test_a_narrow_float_is_exact_up_to_a_size(fault: str, dtype: str) -> None:
    said = f"no index or size that becomes a {dtype} is above {SHORT[dtype]}"
    assert said in family(*FAULTS[fault], dtype)


def test_what_is_not_narrow_is_not_bounded() -> None:
    said = family(lambda x, dtype: x + places(x, jnp.float32), lambda x, dtype: places(x, jnp.int32) + x, "bfloat16")
    assert "no index or size" not in said
