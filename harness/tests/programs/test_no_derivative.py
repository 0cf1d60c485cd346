"""What to do about a gradient that cannot be traced: the message names it."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas

import samebits
from samebits.errors import CouldNotRun

X = jax.ShapeDtypeStruct((4, 8), jnp.float32)


def _double(x: Any) -> Any:
    return x * 2


def _kernel(into: Any, out: Any) -> None:
    @pallas.when(pallas.program_id(0) == 0)
    def _() -> None:
        out[...] = jnp.zeros_like(out)

    out[...] += into[...] * 2


def _by_kernel(x: Any) -> Any:
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pallas.pallas_call(_kernel, out_shape=shape, grid=(1,), interpret=True)(x)


def _called_back(x: Any) -> Any:
    return jax.pure_callback(lambda x: np.asarray(x) * 2, jax.ShapeDtypeStruct(x.shape, x.dtype), x)


@pytest.mark.parametrize(
    ("variant", "advice"),
    [
        (
            _by_kernel,
            "; a Pallas kernel has no derivative of its own: give it one by jax.custom_vjp, or compare without",
        ),
        (_called_back, "; the forward function traces and can be compared without gradients (gradients=False)"),
    ],
)
def test_what_to_do_without_a_derivative(variant: Any, advice: str) -> None:
    with pytest.raises(CouldNotRun) as raised:
        samebits.assert_same(_double, variant, X)
    assert advice in str(raised.value)
    samebits.assert_same(_double, variant, X, gradients=False)
