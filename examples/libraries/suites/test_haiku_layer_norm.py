"""`haiku.LayerNorm` against Linen's with the same epsilon; the weights have the dtype of the activations."""

from __future__ import annotations

import haiku as hk
from flax import linen

from samebits import Arg, Case, Pair, pair_test


def flax(params, x):
    scale, bias = params["layer_norm"]["scale"], params["layer_norm"]["offset"]
    layer = linen.LayerNorm(epsilon=1e-5, use_fast_variance=False)
    return layer.apply({"params": {"scale": scale, "bias": bias}}, x)


LAYER = hk.without_apply_rng(hk.transform(lambda x: hk.LayerNorm(-1, True, True)(x)))

PAIR = Pair(
    name="haiku_layer_norm",
    reference=LAYER.apply,
    variants={"flax": flax},
    args={"params": {"layer_norm": {"scale": Arg(shape=(16,)), "offset": Arg(shape=(16,))}}, "x": Arg(shape=(8, 16))},
    cases=(Case(id="small"),),
    dtypes=("float32", "bfloat16"),
    accuracy=2,
)
test_haiku_layer_norm = pair_test(PAIR)
