"""`einops.rearrange` of heads against a reshape and a transpose."""

from __future__ import annotations

import einops

from samebits import Arg, Case, Pair, pair_test


def reshaped(x):
    return x.reshape(2, 6, 2, 4).transpose(0, 2, 1, 3)


def rearranged(x):
    return einops.rearrange(x, "b t (n h) -> b n t h", n=2)


PAIR = Pair(
    name="einops_rearrange",
    reference=reshaped,
    variants={"einops": rearranged},
    args={"x": Arg(shape=(2, 6, 8))},
    cases=(Case(id="small"),),
    dtypes=("float32", "bfloat16"),
    accuracy=2,
)
test_einops_rearrange = pair_test(PAIR)
