"""Adversaries in the values: special numbers, and terms below the last bit."""

from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np

from samebits.schema.case import Arg
from tests.check.corpus.adversary import Adversary, same
from tests.check.corpus.formula import normal

X = {"x": normal(24)}
TINY = {"x": normal(24, scale=1e-4)}
XY = {"x": normal(24), "y": normal(24)}


def second(x: Any, y: Any) -> Any:
    return y


SPECIAL = (
    Adversary("plus_zero", same, lambda x: x + 0.0, X, ()),
    Adversary("plus_zero_at_minus_zero", same, lambda x: x + 0.0, {"x": normal(24, special=("-0.0",))}, ()),
    Adversary("zero_times", second, lambda x, y: 0 * x + y, XY, ()),
    Adversary(
        "zero_times_infinity",
        second,
        lambda x, y: 0 * x + y,
        {"x": normal(24, special=("inf", "nan")), "y": normal(24)},
        ("check",),
    ),
    Adversary(
        "added_and_subtracted",
        second,
        lambda x, y: (y + x) - x,
        {"x": normal(24, scale=1e6), "y": normal(24)},
        ("check",),
    ),
    Adversary(
        "sign_times_magnitude",
        same,
        lambda x: jnp.sign(x) * jnp.abs(x),
        {"x": normal(24, special=("nan", "-0.0"))},
        ("check",),
    ),
    Adversary("subnormals_flushed", same, lambda x: jnp.where(jnp.abs(x) < 1.2e-38, 0, x), X, ()),
    Adversary("largest_clipped", same, lambda x: jnp.clip(x, -1e38, 1e38), X, ()),
)


LONG = {"x": normal(4, 256)}
MAGNITUDES: dict[str, Arg] = {
    "x": Arg(shape=(16, 16), values=lambda rng, shape: rng.standard_normal(shape) * 10.0 ** -np.arange(16)[:, None])
}


def _toward_zero(x: Any) -> Any:
    bits = jax.lax.bitcast_convert_type(x.astype(jnp.float32) * 1.1, jnp.uint32) & np.uint32(0xFFFF0000)
    return jax.lax.bitcast_convert_type(bits, jnp.float32).astype(x.dtype)


def _shared_exponent(x: Any) -> Any:
    step = jnp.max(jnp.abs(x)) * 2.0**-20
    return jnp.round(x * 1.5 / step) * step


BELOW_THE_LAST_BIT = (
    Adversary("tanh_of_tiny_numbers", same, lambda x: jnp.tanh(x), TINY),
    Adversary("sine_of_tiny_numbers", same, lambda x: jnp.sin(x), TINY),
    Adversary(
        "cosine_of_tiny_numbers", second, lambda x, y: y * jnp.cos(x), {"x": normal(24, scale=1e-5), "y": normal(24)}
    ),
    Adversary("saturated_sigmoid", second, lambda x, y: y * jax.nn.sigmoid(x + 40), XY),
    Adversary("term_of_a_tenth_billionth", lambda x, y: x + y, lambda x, y: x + y + 1e-10 * x * y, XY),
    Adversary("factor_off_by_an_ulp", lambda x: x * 0.1, lambda x: x * 0.10000001, X),
    Adversary("five_digits_of_pi", lambda x: x * jnp.pi, lambda x: x * 3.14159, X),
    Adversary(
        "constant_in_bfloat16", lambda x: x * jnp.pi, lambda x: x * float(np.asarray(np.pi, ml_dtypes.bfloat16)), X
    ),
    Adversary(
        "summed_in_bfloat16",
        lambda x: jnp.sum(x, -1),
        lambda x: jnp.sum(x.astype(jnp.bfloat16), -1).astype(x.dtype),
        LONG,
        ("check",),
    ),
    Adversary(
        "rounded_toward_zero",
        lambda x: (x.astype(jnp.float32) * 1.1).astype(x.dtype),
        _toward_zero,
        X,
        ("check",),
        dtypes=("bfloat16",),
    ),
    Adversary(
        "one_exponent_for_all_rows", lambda x: x * 1.5, _shared_exponent, MAGNITUDES, ("check",), gradients=False
    ),
    Adversary(
        "epsilon_of_ten_times_less",
        lambda x: x / jnp.sqrt(jnp.mean(x * x) + 1e-12),
        lambda x: x / jnp.sqrt(jnp.mean(x * x) + 1e-13),
        X,
    ),
)

ALL = (*SPECIAL, *BELOW_THE_LAST_BIT)
