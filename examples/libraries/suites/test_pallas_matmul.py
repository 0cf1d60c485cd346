"""`jnp.matmul` against a Pallas kernel of blocks with an accumulator, interpreted."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

from samebits import Arg, Case, Pair, pair_test


def kernel(a_ref, b_ref, o_ref):
    @pl.when(pl.program_id(2) == 0)
    def _():
        o_ref[...] = jnp.zeros_like(o_ref)

    o_ref[...] += jnp.dot(a_ref[...], b_ref[...], preferred_element_type=o_ref.dtype)


def by_pallas(a, b):
    return pl.pallas_call(
        kernel,
        jax.ShapeDtypeStruct((16, 8), jnp.promote_types(a.dtype, jnp.float32)),
        grid=(2, 2, 4),
        in_specs=[pl.BlockSpec((8, 8), lambda i, j, k: (i, k)), pl.BlockSpec((8, 4), lambda i, j, k: (k, j))],
        out_specs=pl.BlockSpec((8, 4), lambda i, j, k: (i, j)),
        interpret=True,
    )(a, b).astype(a.dtype)


PAIR = Pair(
    name="pallas_matmul",
    reference=jnp.matmul,
    variants={"by_pallas": by_pallas},
    args={"a": Arg(shape=(16, 32)), "b": Arg(shape=(32, 8))},
    gradients=False,
    cases=(Case(id="small"),),
    dtypes=("float32", "bfloat16"),
    accuracy=2,
)
test_pallas_matmul = pair_test(PAIR)
