"""`einops.repeat` of key heads against `jnp.repeat`."""

from __future__ import annotations

import einops
import jax.numpy as jnp

from samebits import Arg, Case, Pair, pair_test


def repeated(x):
    return jnp.repeat(x, 3, axis=2)


def by_einops(x):
    return einops.repeat(x, "b t n h -> b t (n group) h", group=3)


PAIR = Pair(
    name="einops_repeat",
    reference=repeated,
    variants={"einops": by_einops},
    args={"x": Arg(shape=(2, 6, 2, 4))},
    cases=(Case(id="small"),),
    dtypes=("float32", "bfloat16"),
    accuracy=2,
)
test_einops_repeat = pair_test(PAIR)
