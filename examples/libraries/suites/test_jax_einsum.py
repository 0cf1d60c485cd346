"""`jnp.einsum` against `lax.dot_general` and against one product per head under `vmap`."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from samebits import Arg, Case, Contract, Pair, pair_test


def einsum(x, kernel):
    return jnp.einsum("btd,dnh->bnth", x, kernel)


def dot_general(x, kernel):
    return lax.dot_general(x, kernel, (((2,), (0,)), ((), ()))).transpose(0, 2, 1, 3)


def per_head(x, kernel):
    return jax.vmap(jnp.matmul, (None, 1), 1)(x, kernel)


PAIR = Pair(
    name="jax_einsum",
    reference=einsum,
    variants={"dot_general": dot_general, "per_head": per_head},
    args={
        "x": Arg(shape=(2, 4, 16), spec=("dp",)),
        "kernel": Arg(shape=(16, 2, 4), spec=(None, "tp")),
    },
    meshes=("none", "dp2_tp2"),
    contracts=(
        Contract(
            dtype="bfloat16",
            mesh="dp2_tp2",
            direction="gradient",
            lowest="rounding",
            error_ratio=32.0,
            reason="each device rounds its part of a sum to bfloat16 before the parts are added",
        ),
    ),
    cases=(Case(id="small"),),
    dtypes=("float32", "bfloat16"),
    accuracy=2,
)
test_jax_einsum = pair_test(PAIR)
