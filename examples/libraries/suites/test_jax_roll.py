"""`jnp.roll` against slices that are concatenated, and against a gather."""

from __future__ import annotations

import jax.numpy as jnp

from samebits import Arg, Case, Pair, pair_test


def roll(x):
    return jnp.roll(x, 3, axis=0)


def concatenate(x):
    return jnp.concatenate([x[-3:], x[:-3]])


def gather(x):
    return x[(jnp.arange(len(x)) - 3) % len(x)]


PAIR = Pair(
    name="jax_roll",
    reference=roll,
    variants={"concatenate": concatenate, "gather": gather},
    args={"x": Arg(shape=(8, 16))},
    cases=(Case(id="small"),),
    dtypes=("float32", "bfloat16"),
    accuracy=2,
)
test_jax_roll = pair_test(PAIR)
