"""`jax.nn.logsumexp` against the plain formula, and against `jnp.logaddexp` element by element."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from samebits import Arg, Case, Pair, pair_test


def plain(a):
    return jnp.log(jnp.sum(jnp.exp(a)))


def one_by_one(a):
    return jnp.logaddexp.reduce(a)


PAIR = Pair(
    name="jax_logsumexp",
    reference=jax.nn.logsumexp,
    variants={"plain": plain, "one_by_one": one_by_one},
    args={"a": Arg(shape=(16,))},
    cases=(Case(id="small"),),
    dtypes=("float32", "bfloat16"),
    accuracy=2,
)
test_jax_logsumexp = pair_test(PAIR)
