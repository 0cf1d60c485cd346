"""`flax.nnx.RMSNorm` against Linen's, and against the formula in the dtype of its input."""

from __future__ import annotations

import jax.numpy as jnp
from flax import linen, nnx
from jax import lax

from samebits import Adapt, Arg, Case, Exemption, Pair, like, pair_test


def layer_of_nnx(layer, x):
    return layer(x)


def formula(layer, x):
    return x * lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6) * layer.scale[...]


def as_linen(layer, x):
    return {"variables": {"params": {"scale": layer.scale[...]}}, "x": x}


PAIR = Pair(
    name="flax_rms_norm",
    reference=layer_of_nnx,
    variants={"linen": linen.RMSNorm().apply, "formula": formula},
    adapt={"linen": Adapt(arguments=as_linen)},
    args={"layer": like(nnx.RMSNorm(16, rngs=nnx.Rngs(0))), "x": Arg(shape=(8, 16))},
    exemptions=(
        Exemption(
            variant="formula",
            dtype="bfloat16",
            reason="the float32 output has bfloat16's error: 1e4 times the library's, which computes in float32",
        ),
    ),
    cases=(Case(id="small"),),
    dtypes=("float32", "bfloat16"),
    accuracy=2,
)
test_flax_rms_norm = pair_test(PAIR)
