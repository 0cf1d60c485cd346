"""`lax.top_k` against a stable sort, with ties."""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax

from samebits import Arg, Case, Pair, pair_test


def top_k(x):
    return tuple(lax.top_k(x, 4))


def by_sort(x):
    order = jnp.argsort(x, axis=-1, descending=True, stable=True)[..., :4]
    return jnp.take_along_axis(x, order, axis=-1), order


PAIR = Pair(
    name="jax_top_k",
    reference=top_k,
    variants={"by_sort": by_sort},
    args={"x": Arg(shape=(8, 16), values=lambda rng, shape: rng.integers(0, 6, shape))},
    cases=(Case(id="small"),),
    dtypes=("float32", "bfloat16"),
    accuracy=2,
)
test_jax_top_k = pair_test(PAIR)
