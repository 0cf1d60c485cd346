"""`jnp.var` far from zero against the squared deviation, and the mean of squares minus the squared mean."""

from __future__ import annotations

import jax.numpy as jnp

from samebits import Arg, Case, Exemption, Normal, Pair, pair_test


def two_pass(x):
    return jnp.var(x, axis=-1)


def square_of_deviation(x):
    return jnp.std(x, axis=-1) ** 2


def two_moments(x):
    return jnp.mean(x * x, axis=-1) - jnp.mean(x, axis=-1) ** 2


PAIR = Pair(
    name="jax_variance",
    reference=two_pass,
    variants={"square_of_deviation": square_of_deviation, "two_moments": two_moments},
    args={"x": Arg(shape=(8, 16), values=Normal(offset=30.0))},
    exemptions=(Exemption(variant="two_moments", reason="squares near 900 cancel: in float32 about 1000x the error"),),
    cases=(Case(id="small"),),
    dtypes=("float32", "bfloat16"),
    accuracy=2,
)
test_jax_variance = pair_test(PAIR)
