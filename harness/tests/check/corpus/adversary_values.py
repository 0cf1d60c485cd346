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
    Adversary(name="plus_zero", reference=same, other=lambda x: x + 0.0, args=X, refuted=()),
    Adversary(
        name="plus_zero_at_minus_zero",
        reference=same,
        other=lambda x: x + 0.0,
        args={"x": normal(24, special=("-0.0",))},
        refuted=(),
    ),
    Adversary(name="zero_times", reference=second, other=lambda x, y: 0 * x + y, args=XY, refuted=()),
    Adversary(
        name="zero_times_infinity",
        reference=second,
        other=lambda x, y: 0 * x + y,
        args={"x": normal(24, special=("inf", "nan")), "y": normal(24)},
        refuted=("check",),
    ),
    Adversary(
        name="added_and_subtracted",
        reference=second,
        other=lambda x, y: (y + x) - x,
        args={"x": normal(24, scale=1e6), "y": normal(24)},
        refuted=("check",),
    ),
    Adversary(
        name="sign_times_magnitude",
        reference=same,
        other=lambda x: jnp.sign(x) * jnp.abs(x),
        args={"x": normal(24, special=("nan", "-0.0"))},
        refuted=("check",),
    ),
    Adversary(
        name="subnormals_flushed",
        reference=same,
        other=lambda x: jnp.where(jnp.abs(x) < 1.2e-38, 0, x),
        args=X,
        refuted=(),
    ),
    Adversary(name="largest_clipped", reference=same, other=lambda x: jnp.clip(x, -1e38, 1e38), args=X, refuted=()),
)


def scaled(x: Any) -> Any:
    return x * 0.1


def sum_of_two(x: Any, y: Any) -> Any:
    return x + y


def row_sums(x: Any) -> Any:
    return jnp.sum(x, -1)


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


def widened(x: Any) -> Any:
    return (x.astype(jnp.float32) * 1.1).astype(x.dtype)


def larger_half(x: Any) -> Any:
    return x * 1.5


BELOW_THE_LAST_BIT = (
    Adversary(name="tanh_of_tiny_numbers", reference=same, other=lambda x: jnp.tanh(x), args=TINY),
    Adversary(name="sine_of_tiny_numbers", reference=same, other=lambda x: jnp.sin(x), args=TINY),
    Adversary(
        name="cosine_of_tiny_numbers",
        reference=second,
        other=lambda x, y: y * jnp.cos(x),
        args={"x": normal(24, scale=1e-5), "y": normal(24)},
    ),
    Adversary(name="saturated_sigmoid", reference=second, other=lambda x, y: y * jax.nn.sigmoid(x + 40), args=XY),
    Adversary(
        name="term_of_a_tenth_billionth", reference=sum_of_two, other=lambda x, y: x + y + 1e-10 * x * y, args=XY
    ),
    Adversary(name="factor_off_by_an_ulp", reference=scaled, other=lambda x: x * 0.10000001, args=X),
    Adversary(name="five_digits_of_pi", reference=lambda x: x * jnp.pi, other=lambda x: x * 3.14159, args=X),
    Adversary(
        name="constant_in_bfloat16",
        reference=lambda x: x * jnp.pi,
        other=lambda x: x * float(np.asarray(np.pi, ml_dtypes.bfloat16)),
        args=X,
    ),
    Adversary(
        name="summed_in_bfloat16",
        reference=row_sums,
        other=lambda x: jnp.sum(x.astype(jnp.bfloat16), -1).astype(x.dtype),
        args=LONG,
        refuted=("check",),
    ),
    Adversary(
        name="rounded_toward_zero",
        reference=widened,
        other=_toward_zero,
        args=X,
        dtypes=("bfloat16",),
        refuted=("check",),
    ),
    Adversary(
        name="one_exponent_for_all_rows",
        reference=larger_half,
        other=_shared_exponent,
        args=MAGNITUDES,
        gradients=False,
        refuted=("check",),
    ),
    Adversary(
        name="epsilon_of_ten_times_less",
        reference=lambda x: x / jnp.sqrt(jnp.mean(x * x) + 1e-12),
        other=lambda x: x / jnp.sqrt(jnp.mean(x * x) + 1e-13),
        args=X,
    ),
)

ALL = (*SPECIAL, *BELOW_THE_LAST_BIT)
