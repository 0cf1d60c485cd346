"""`lax.map` against `jax.vmap`, and against itself in batches."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from samebits import Arg, Case, Pair, pair_test


def mapped(x, kernel):
    return lax.map(lambda row: jnp.tanh(row @ kernel), x)


def vmapped(x, kernel):
    return jax.vmap(lambda row: jnp.tanh(row @ kernel))(x)


def batched(x, kernel):
    return lax.map(lambda row: jnp.tanh(row @ kernel), x, batch_size=4)


PAIR = Pair(
    name="jax_map",
    reference=mapped,
    variants={"vmapped": vmapped, "batched": batched},
    args={"x": Arg(shape=(8, 16)), "kernel": Arg(shape=(16, 4))},
    cases=(Case(id="small"),),
    dtypes=("float32", "bfloat16"),
    accuracy=2,
)
test_jax_map = pair_test(PAIR)
