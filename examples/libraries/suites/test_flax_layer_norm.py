"""`flax.nnx.LayerNorm` against itself in two passes, Linen's, and Linen's `GroupNorm` of one group."""

from __future__ import annotations

from flax import linen, nnx

from samebits import Adapt, Arg, Case, Contract, Pair, like, pair_test


def layer_of_nnx(layer, x):
    return layer(x)


def two_passes(layer, x):
    return nnx.LayerNorm(
        16,
        use_fast_variance=False,
        scale_init=lambda *_: layer.scale[...],
        bias_init=lambda *_: layer.bias[...],
        rngs=nnx.Rngs(0),
    )(x)


def as_linen(layer, x):
    return {"variables": {"params": {"scale": layer.scale[...], "bias": layer.bias[...]}}, "x": x}


PAIR = Pair(
    name="flax_layer_norm",
    reference=layer_of_nnx,
    variants={
        "two_passes": two_passes,
        "linen": linen.LayerNorm().apply,
        "group_norm": linen.GroupNorm(num_groups=1).apply,
    },
    adapt={"linen": Adapt(arguments=as_linen), "group_norm": Adapt(arguments=as_linen)},
    args={"layer": like(nnx.LayerNorm(16, rngs=nnx.Rngs(0))), "x": Arg(shape=(8, 16))},
    contracts=(
        Contract(
            dtype="bfloat16",
            direction="gradient",
            leaf="x",
            lowest="rounding",
            error_ratio=64.0,
            reason="Linen's gradient of bfloat16 activations has about 11x the error of NNX's",
        ),
    ),
    cases=(Case(id="small"),),
    dtypes=("float32", "bfloat16"),
    accuracy=2,
)
test_flax_layer_norm = pair_test(PAIR)
