"""`haiku.LayerNorm` against Linen's with the same epsilon; the weights have the dtype of the activations."""

from __future__ import annotations

import haiku as hk
from flax import linen

from samebits import Adapt, Arg, Case, Pair, pair_test


def as_linen(params, x):
    layer = params["layer_norm"]
    return {"variables": {"params": {"scale": layer["scale"], "bias": layer["offset"]}}, "x": x}


LAYER = hk.without_apply_rng(hk.transform(lambda x: hk.LayerNorm(-1, True, True)(x)))

PAIR = Pair(
    name="haiku_layer_norm",
    reference=LAYER.apply,
    variants={"linen": linen.LayerNorm(epsilon=1e-5, use_fast_variance=False).apply},
    adapt={"linen": Adapt(arguments=as_linen)},
    args={"params": {"layer_norm": {"scale": Arg(shape=(16,)), "offset": Arg(shape=(16,))}}, "x": Arg(shape=(8, 16))},
    cases=(Case(id="small"),),
    dtypes=("float32", "bfloat16"),
)
test_haiku_layer_norm = pair_test(PAIR)
