"""Three projections against one with fused weights."""

from __future__ import annotations

import jax.numpy as jnp
from flax import linen

from samebits import Adapt, Arg, Case, Pair, pair_test


def split(params, x):
    return [linen.DenseGeneral((2, 4), use_bias=False).apply({"params": params[name]}, x) for name in "qkv"]


def as_fused(params, x):
    kernel = jnp.stack([params[name]["kernel"] for name in "qkv"], axis=1)
    return {"variables": {"params": {"kernel": kernel}}, "inputs": x}


PAIR = Pair(
    name="flax_qkv",
    reference=split,
    variants={"fused": linen.DenseGeneral((3, 2, 4), use_bias=False).apply},
    adapt={"fused": Adapt(arguments=as_fused, outputs=lambda qkv: [qkv[:, 0], qkv[:, 1], qkv[:, 2]])},
    args={"params": {name: {"kernel": Arg(shape=(8, 2, 4))} for name in "qkv"}, "x": Arg(shape=(6, 8))},
    cases=(Case(id="small"),),
    dtypes=("float32", "bfloat16"),
    accuracy=2,
)
test_flax_qkv = pair_test(PAIR)
