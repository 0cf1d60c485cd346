"""`einops.reduce` over patches against a reshape and a mean."""

from __future__ import annotations

import einops

from samebits import Arg, Case, Pair, pair_test


def reshaped(x):
    return x.reshape(2, 3, 2, 3, 2, 4).mean((2, 4))


def reduced(x):
    return einops.reduce(x, "b (h p) (w q) c -> b h w c", "mean", p=2, q=2)


PAIR = Pair(
    name="einops_reduce",
    reference=reshaped,
    variants={"einops": reduced},
    args={"x": Arg(shape=(2, 6, 6, 4))},
    cases=(Case(id="small"),),
    dtypes=("float32", "bfloat16"),
    accuracy=2,
)
test_einops_reduce = pair_test(PAIR)
