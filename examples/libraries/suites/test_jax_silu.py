"""`jax.nn.silu` against the quotient and against the formula with tanh."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from samebits import Arg, Case, Pair, pair_test


def quotient(x):
    return x / (1 + jnp.exp(-x))


def by_tanh(x):
    return x * (0.5 + 0.5 * jnp.tanh(0.5 * x))


PAIR = Pair(
    name="jax_silu",
    reference=jax.nn.silu,
    variants={"quotient": quotient, "by_tanh": by_tanh},
    args={"x": Arg(shape=(8, 16))},
    cases=(Case(id="small"),),
    dtypes=("float32", "bfloat16"),
    accuracy=2,
)
test_jax_silu = pair_test(PAIR)
