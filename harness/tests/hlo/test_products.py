"""Products in passes of bfloat16: known values, and how far each number of passes is from the product itself."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from samebits.hlo.as_jax import PartitionProgram
from samebits.hlo.module import HloModule

X, Y = (np.random.default_rng(number).standard_normal((64, 64)).astype(np.float32) for number in range(2))


def in_passes(function: Any, *arrays: Any) -> Any:
    """Run what the CPU's compiler makes of a function, products in passes."""
    executable: Any = jax.jit(function).lower(*arrays).compile().runtime_executable()
    module = HloModule(executable.hlo_modules()[0].as_serialized_hlo_module_proto())
    program = PartitionProgram(module, [1], in_passes=True)
    (result,) = jax.jit(program.on_all)(*(array[None] for array in arrays))
    return np.asarray(result[0])


def product(precision: str) -> Any:
    return lambda x, y: lax.dot_general(x, y, (((1,), (0,)), ((), ())), precision=precision)


def error(result: Any) -> float:
    exact = X.astype(np.float64) @ Y.astype(np.float64)
    return float(np.max(np.abs(result - exact)) / np.max(np.abs(exact)))


def test_one_pass_multiplies_what_bfloat16_holds() -> None:
    rounded = [array.astype(jnp.bfloat16).astype(np.float64) for array in (X, Y)]
    result = in_passes(product("default"), X, Y)
    np.testing.assert_allclose(result, rounded[0] @ rounded[1], rtol=0, atol=1e-4)
    assert error(result) > 2.0**-12


def test_a_known_product() -> None:
    """1 + 2^-9 + 2^-18 in three parts: squared, each number of passes drops the terms below its own."""
    high, middle, low = 1.0, 2.0**-9, 2.0**-18
    numbers = np.eye(64, dtype=np.float32) * np.float32(high + middle + low)
    expected = {"default": high, "high": high + 2 * middle, "highest": high + 2 * middle + 2 * low + middle**2}
    for precision, square in expected.items():
        assert np.array_equal(in_passes(product(precision), numbers, numbers), np.eye(64) * square), precision


@pytest.mark.parametrize(("precision", "bound"), [("high", 2.0**-14), ("highest", 2.0**-20)])
def test_more_passes_are_closer(precision: str, bound: float) -> None:
    assert error(in_passes(product(precision), X, Y)) < bound < error(in_passes(product("default"), X, Y))


def test_products_of_other_types_stay_as_they_are() -> None:
    halves = X.astype(jnp.bfloat16), Y.astype(jnp.bfloat16)
    exact = halves[0].astype(np.float64) @ halves[1].astype(np.float64)
    result = in_passes(
        lambda x, y: lax.dot_general(x, y, (((1,), (0,)), ((), ())), preferred_element_type="float32"), *halves
    )
    np.testing.assert_allclose(result, exact, rtol=0, atol=1e-4)


def test_an_infinity_stays_one() -> None:
    x = X.copy()
    x[3, 5] = np.inf
    for precision in ("default", "high", "highest"):
        np.testing.assert_array_equal(np.isinf(in_passes(product(precision), x, Y)), np.isinf(x @ Y))


def test_convolutions_are_products_too() -> None:
    image, kernel = X.reshape(1, 1, 64, 64), Y[:3, :3].reshape(1, 1, 3, 3)

    def convolved(x: Any, y: Any) -> Any:
        return lax.conv(x, y, (1, 1), "VALID")

    rounded = [array.astype(jnp.bfloat16).astype(np.float32) for array in (image, kernel)]
    np.testing.assert_allclose(in_passes(convolved, image, kernel), convolved(*rounded), rtol=0, atol=1e-5)
