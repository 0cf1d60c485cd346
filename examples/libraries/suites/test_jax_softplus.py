"""`jax.nn.softplus` against log-sigmoid, and against the plain formula, which overflows."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from samebits import Arg, Case, Exemption, Normal, Pair, pair_test


def by_log_sigmoid(x):
    return -jax.nn.log_sigmoid(-x)


def plain(x):
    return jnp.log1p(jnp.exp(x))


PAIR = Pair(
    name="jax_softplus",
    reference=jax.nn.softplus,
    variants={"by_log_sigmoid": by_log_sigmoid, "plain": plain},
    args={"x": Arg(shape=(8, 16), values=Normal(scale=60.0))},
    exemptions=(Exemption(variant="plain", reason="exp overflows above 88.7: infinity, and NaN in the gradient"),),
    cases=(Case(id="small"),),
    dtypes=("float32", "bfloat16"),
    accuracy=2,
)
test_jax_softplus = pair_test(PAIR)
