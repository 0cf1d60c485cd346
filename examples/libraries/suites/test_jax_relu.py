"""`jax.nn.relu` against `jnp.maximum` and `jnp.where`, with zeros of both signs among the inputs."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from samebits import Arg, Case, Exemption, Pair, pair_test


def maximum(x):
    return jnp.maximum(x, 0)


def where(x):
    return jnp.where(x > 0, x, 0)


PAIR = Pair(
    name="jax_relu",
    reference=jax.nn.relu,
    variants={"maximum": maximum, "where": where},
    args={"x": Arg(shape=(8, 16), special=("-0.0",))},
    exemptions=(
        Exemption(variant="maximum", direction="gradient", reason="at 0 relu has the gradient 0, and maximum 0.5"),
    ),
    cases=(Case(id="small"),),
    dtypes=("float32", "bfloat16"),
    accuracy=2,
)
test_jax_relu = pair_test(PAIR)
