"""Programs as they are written, in NumPy: what `lax.reduce_precision` rounds is rounded."""

import jax
import numpy as np
import pytest

from samebits.interpret.as_written import simulate
from samebits.interpret.problem import Input, Question


@pytest.mark.parametrize(("exponent_bits", "mantissa_bits"), [(8, 10), (8, 7), (5, 10), (4, 3), (5, 2)])
def test_reduced_precision_is_that_of_xla(exponent_bits: int, mantissa_bits: int) -> None:
    """Halfway cases, both ends of the range, signed zeros and infinities; not float32's own subnormal numbers."""
    scales = np.float32(10) ** np.arange(-37, 38, dtype=np.float32)
    edges = [np.inf, -np.inf, 0.0, -0.0, 65504, 65519, 65520, 6e-5, 6.1e-5, 1 + 2.0**-11, 1 + 3 * 2.0**-11]
    drawn = np.random.default_rng(0).standard_normal((20, 1)).astype(np.float32) * scales
    x = np.concatenate([drawn.ravel(), np.array(edges, np.float32)])
    x = x[(np.abs(x) >= np.finfo(np.float32).tiny) | (x == 0)]

    def reduced(x: jax.Array) -> jax.Array:
        return jax.lax.reduce_precision(x, exponent_bits, mantissa_bits)

    program = jax.make_jaxpr(reduced)(x)
    written = simulate(program, Question(program, program, [Input("x", x)], ["out"]))["out"]
    np.testing.assert_array_equal(written.view(np.int32), np.asarray(reduced(x)).view(np.int32))
