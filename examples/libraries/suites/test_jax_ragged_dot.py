"""`lax.ragged_dot` against masked products of all groups, and against a gathered kernel per row; one group is empty."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from samebits import Arg, Case, Contract, Pair, pair_test


def group_of_row(rows, group_sizes):
    return jnp.repeat(jnp.arange(len(group_sizes)), group_sizes, total_repeat_length=rows)


def masked(lhs, rhs, group_sizes):
    mask = jax.nn.one_hot(group_of_row(len(lhs), group_sizes), len(rhs), dtype=lhs.dtype)
    return jnp.einsum("rg,rk,gkn->rn", mask, lhs, rhs)


def gathered(lhs, rhs, group_sizes):
    return jnp.einsum("rk,rkn->rn", lhs, rhs[group_of_row(len(lhs), group_sizes)])


PAIR = Pair(
    name="jax_ragged_dot",
    reference=lax.ragged_dot,
    variants={"masked": masked, "gathered": gathered},
    args={
        "lhs": Arg(shape=(12, 8)),
        "rhs": Arg(shape=(3, 8, 4)),
        "group_sizes": Arg(shape=(3,), dtype="int32", values=lambda rng, shape: [5, 0, 7]),
    },
    contracts=(
        Contract(
            variant="gathered",
            dtype="bfloat16",
            direction="gradient",
            leaf="rhs",
            lowest="rounding",
            error_ratio=64.0,
            reason="the gradient of the gather adds up the kernels of 7 rows in bfloat16",
        ),
    ),
    cases=(Case(id="small"),),
    dtypes=("float32", "bfloat16"),
    accuracy=2,
)
test_jax_ragged_dot = pair_test(PAIR)
