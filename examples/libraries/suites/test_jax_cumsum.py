"""`jnp.cumsum` against an associative scan, a sequential scan and a product with a triangle of ones."""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax

from samebits import Arg, Case, Pair, pair_test


def cumsum(x):
    return jnp.cumsum(x, axis=0)


def associative_scan(x):
    return lax.associative_scan(jnp.add, x)


def scan(x):
    return lax.scan(lambda total, row: (total + row,) * 2, jnp.zeros_like(x[0]), x)[1]


def triangle(x):
    return jnp.tri(len(x), dtype=x.dtype) @ x


PAIR = Pair(
    name="jax_cumsum",
    reference=cumsum,
    variants={"associative_scan": associative_scan, "scan": scan, "triangle": triangle},
    args={"x": Arg(shape=(16, 8))},
    cases=(Case(id="small"),),
    dtypes=("float32", "bfloat16"),
    accuracy=2,
)
test_jax_cumsum = pair_test(PAIR)
