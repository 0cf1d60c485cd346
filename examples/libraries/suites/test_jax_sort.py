"""`jnp.sort` against a gather in sorted order, and against `lax.top_k` of the negated input."""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax

from samebits import Arg, Case, Pair, pair_test


def by_argsort(a):
    return jnp.take_along_axis(a, jnp.argsort(a, axis=-1), axis=-1)


def by_top_k(a):
    return -lax.top_k(-a, a.shape[-1])[0]


PAIR = Pair(
    name="jax_sort",
    reference=jnp.sort,
    variants={"by_argsort": by_argsort, "by_top_k": by_top_k},
    args={"a": Arg(shape=(8, 16))},
    cases=(Case(id="small"),),
    dtypes=("float32", "bfloat16"),
    accuracy=2,
)
test_jax_sort = pair_test(PAIR)
