"""`jax.lax.ragged_dot` against Tokamax's; one group is empty."""

from __future__ import annotations

import tokamax
from jax import lax

from samebits import Arg, Case, Pair, pair_test


def grouped(lhs, rhs, group_sizes):
    return tokamax.ragged_dot(lhs, rhs, group_sizes, implementation="xla")


PAIR = Pair(
    name="tokamax_ragged_dot",
    reference=lax.ragged_dot,
    variants={"tokamax": grouped},
    args={
        "lhs": Arg(shape=(12, 8)),
        "rhs": Arg(shape=(3, 8, 4)),
        "group_sizes": Arg(shape=(3,), dtype="int32", values=lambda rng, shape: [5, 0, 7]),
    },
    cases=(Case(id="small"),),
    dtypes=("float32", "bfloat16"),
    accuracy=2,
)
test_tokamax_ragged_dot = pair_test(PAIR)
