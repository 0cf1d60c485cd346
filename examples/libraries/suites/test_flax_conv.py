"""`flax.nnx.Conv` against Linen's, and against a sum of shifted products."""

from __future__ import annotations

import jax.numpy as jnp
from flax import linen, nnx

from samebits import Adapt, Arg, Case, Pair, like, pair_test


def layer_of_nnx(layer, x):
    return layer(x)


def shifted(layer, x):
    padded = jnp.pad(x, ((0, 0), (1, 1), (0, 0)))
    return sum(padded[:, place : place + x.shape[1]] @ layer.kernel[place] for place in range(3))


def as_linen(layer, x):
    return {"variables": {"params": {"kernel": layer.kernel[...]}}, "inputs": x}


PAIR = Pair(
    name="flax_conv",
    reference=layer_of_nnx,
    variants={"linen": linen.Conv(4, 3, use_bias=False).apply, "shifted": shifted},
    adapt={"linen": Adapt(arguments=as_linen)},
    args={"layer": like(nnx.Conv(3, 4, 3, use_bias=False, rngs=nnx.Rngs(0))), "x": Arg(shape=(2, 8, 3))},
    dtypes=("float32",),
    cases=(Case(id="small"),),
    accuracy=2,
)
test_flax_conv = pair_test(PAIR)
