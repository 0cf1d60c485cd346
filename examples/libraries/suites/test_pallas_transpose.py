"""`jnp.transpose` against a Pallas kernel of blocks, interpreted."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

from samebits import Arg, Case, Pair, pair_test


def kernel(a_ref, o_ref):
    o_ref[...] = a_ref[...].T


def by_pallas(a):
    return pl.pallas_call(
        kernel,
        jax.ShapeDtypeStruct((16, 8), a.dtype),
        grid=(2, 2),
        in_specs=[pl.BlockSpec((4, 8), lambda i, j: (i, j))],
        out_specs=pl.BlockSpec((8, 4), lambda i, j: (j, i)),
        interpret=True,
    )(a)


PAIR = Pair(
    name="pallas_transpose",
    reference=jnp.transpose,
    variants={"by_pallas": by_pallas},
    args={"a": Arg(shape=(8, 16))},
    gradients=False,
    cases=(Case(id="small"),),
    dtypes=("float32", "bfloat16"),
    accuracy=2,
)
test_pallas_transpose = pair_test(PAIR)
