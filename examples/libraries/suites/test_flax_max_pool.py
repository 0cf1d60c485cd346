"""Linen's `max_pool` against a reshape and a maximum."""

from __future__ import annotations

from flax import linen

from samebits import Arg, Case, Pair, pair_test


def pool(x):
    return linen.max_pool(x, (2, 2), strides=(2, 2))


def reshaped(x):
    return x.reshape(2, 4, 2, 4, 2, 3).max((2, 4))


PAIR = Pair(
    name="flax_max_pool",
    reference=pool,
    variants={"reshaped": reshaped},
    args={"x": Arg(shape=(2, 8, 8, 3))},
    cases=(Case(id="small"),),
    dtypes=("float32", "bfloat16"),
    accuracy=2,
)
test_flax_max_pool = pair_test(PAIR)
