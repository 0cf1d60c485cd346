"""Operands whose order says nothing on a GPU of NVIDIA, and those whose order does."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from samebits.hlo.canonical import ordered_identity
from samebits.numerics.bits import same_bits
from tests.hlo.programs import Array, module
from tests.hlo.test_canonical import ORDER, Two, X

SHORT = Array((8, 8), "bfloat16")
COMPLEX = Array((8, 8), "complex64")
NO_ORDER_ON_CUDA = {
    "a sum": ORDER["x + y"],
    "a product": ORDER["x * y"],
    "a product in bfloat16": Two(lambda x, y: x * y, lambda x, y: y * x, (SHORT, SHORT)),
    "a product and what is loaded": Two(lambda x, y, z: z + x * y, lambda x, y, z: x * y + z, (X, X, X)),
    "a product and a constant": Two(lambda x, y: 1 + x * y, lambda x, y: x * y + 1, (X, X)),
}
ORDER_ON_CUDA = {
    "two products": ORDER["a*b + c*d"],
    "two products, moved": Two(
        lambda x, y, z: (x * y).T + (y * z)[::1].reshape(8, 8), lambda x, y, z: (y * z) + (x * y).T, (X, X, X)
    ),
    "complex numbers": Two(lambda x, y: x * y, lambda x, y: y * x, (COMPLEX, COMPLEX)),
    "the larger": ORDER["maximum"],
    "a difference": Two(lambda x, y: x - y, lambda x, y: y - x, (X, X)),
}


def on_cuda(two: Two) -> list[str]:
    sides = (two.first, two.second)
    return [ordered_identity(module(side, *two.arguments, layout=two.layout), cuda=True) for side in sides]


@pytest.mark.parametrize("name", NO_ORDER_ON_CUDA)
def test_operands_without_an_order_on_cuda(name: str) -> None:
    first, second = on_cuda(NO_ORDER_ON_CUDA[name])
    assert first == second


@pytest.mark.parametrize("name", ORDER_ON_CUDA)
def test_operands_with_an_order_on_cuda(name: str) -> None:
    first, second = on_cuda(ORDER_ON_CUDA[name])
    assert first != second


NANS = {"float32": (np.uint32, 0x7FC00001), "bfloat16": (np.uint16, 0x7FC1), "float16": (np.uint16, 0x7E01)}


@pytest.mark.parametrize("name", ["x + y", "x * y"])
@pytest.mark.parametrize("dtype", NANS)
def test_of_two_nans_the_cpu_keeps_the_first_one_and_cuda_none(name: str, dtype: str) -> None:
    """It runs wherever jax does: what `cuda=True` takes for granted is held against execution on a GPU."""
    kind, bits = NANS[dtype]
    quiet, other = (np.full(4, number, kind).view(jnp.dtype(dtype)) for number in (bits, bits + 1))
    two = ORDER[name]
    found = [np.asarray(jax.jit(function)(quiet, other)) for function in (two.first, two.second)]
    if dtype == "float32" or jax.default_backend() != "cpu":  # XLA:CPU widens the others, each version in its own way
        assert same_bits(*found) == jax.devices()[0].client.platform_version.startswith("cuda")
