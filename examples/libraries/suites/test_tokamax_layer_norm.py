"""`tokamax.layer_norm` against Linen's `LayerNorm` in two passes."""

from __future__ import annotations

import functools

import tokamax
from flax import linen

from samebits import Arg, Case, Contract, Pair, pair_test


def flax(x, scale, offset):
    layer = linen.LayerNorm(use_fast_variance=False)
    return layer.apply({"params": {"scale": scale, "bias": offset}}, x)


PAIR = Pair(
    name="tokamax_layer_norm",
    reference=functools.partial(tokamax.layer_norm, implementation="xla"),
    variants={"flax": flax},
    args={"x": Arg(shape=(8, 16)), "scale": Arg(shape=(16,)), "offset": Arg(shape=(16,))},
    contracts=(
        Contract(
            dtype="bfloat16",
            direction="gradient",
            leaf="x",
            lowest="rounding",
            error_ratio=64.0,
            reason="Linen's gradient of bfloat16 activations has about 4x the error of Tokamax's",
        ),
    ),
    cases=(Case(id="small"),),
    dtypes=("float32", "bfloat16"),
    accuracy=2,
)
test_tokamax_layer_norm = pair_test(PAIR)
