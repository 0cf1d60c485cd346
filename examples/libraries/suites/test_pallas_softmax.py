"""`jax.nn.softmax` against a Pallas kernel of blocks of rows, interpreted."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

from samebits import Arg, Case, Pair, pair_test


def kernel(x_ref, o_ref):
    exponentials = jnp.exp(x_ref[...] - x_ref[...].max(axis=-1, keepdims=True))
    o_ref[...] = exponentials / exponentials.sum(axis=-1, keepdims=True)


def by_pallas(x):
    rows = pl.BlockSpec((2, 16), lambda row: (row, 0))
    return pl.pallas_call(kernel, x, grid=(4,), in_specs=[rows], out_specs=rows, interpret=True)(x)


PAIR = Pair(
    name="pallas_softmax",
    reference=jax.nn.softmax,
    variants={"by_pallas": by_pallas},
    args={"x": Arg(shape=(8, 16))},
    gradients=False,
    cases=(Case(id="small"),),
    dtypes=("float32", "bfloat16"),
    accuracy=2,
)
test_pallas_softmax = pair_test(PAIR)
