"""MaxText's `RMSNorm` against `flax.nnx.RMSNorm`."""

from __future__ import annotations

from flax import nnx
from maxtext.layers.normalizations import RMSNorm

from samebits import Arg, Case, Pair, like, pair_test


def flax(layer, x):
    return nnx.RMSNorm(16, scale_init=lambda *_: layer.scale[...], rngs=nnx.Rngs(0))(x)


def maxtext(layer, x):
    return layer(x)


PAIR = Pair(
    name="maxtext_rms_norm",
    reference=flax,
    variants={"maxtext": maxtext},
    args={"layer": like(RMSNorm(16, rngs=nnx.Rngs(0))), "x": Arg(shape=(8, 16))},
    cases=(Case(id="small"),),
    dtypes=("float32", "bfloat16"),
    accuracy=2,
)
test_maxtext_rms_norm = pair_test(PAIR)
