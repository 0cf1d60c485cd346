"""`flax.nnx.MultiHeadAttention` against Linen's."""

from __future__ import annotations

from flax import linen, nnx

from samebits import Adapt, Arg, Case, Pair, like, pair_test


def layer_of_nnx(layer, x):
    return layer(x)


def as_linen(layer, x):
    names = ("query", "key", "value", "out")
    params = {name: {"kernel": getattr(layer, name).kernel[...]} for name in names}
    return {"variables": {"params": params}, "inputs_q": x}


LAYER = nnx.MultiHeadAttention(2, 8, use_bias=False, decode=False, rngs=nnx.Rngs(0))

PAIR = Pair(
    name="flax_attention",
    reference=layer_of_nnx,
    variants={"linen": linen.MultiHeadDotProductAttention(2, use_bias=False).apply},
    adapt={"linen": Adapt(arguments=as_linen)},
    args={"layer": like(LAYER), "x": Arg(shape=(2, 6, 8))},
    cases=(Case(id="small"),),
    dtypes=("float32", "bfloat16"),
    accuracy=2,
)
test_flax_attention = pair_test(PAIR)
