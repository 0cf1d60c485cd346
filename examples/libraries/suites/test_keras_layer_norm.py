"""`flax.nnx.LayerNorm` against `keras.ops.layer_normalization` and the Keras layer."""

from __future__ import annotations

import os

os.environ["KERAS_BACKEND"] = "jax"

import keras
from flax import nnx

from samebits import Arg, Case, Exemption, Pair, pair_test


def flax(x, gamma, beta):
    return nnx.LayerNorm(16, scale_init=lambda *_: gamma, bias_init=lambda *_: beta, rngs=nnx.Rngs(0))(x)


def ops(x, gamma, beta):
    return keras.ops.layer_normalization(x, gamma, beta, epsilon=1e-6)


def layer(x, gamma, beta):
    return LAYER.stateless_call([gamma, beta], [], x)[0]


LAYER = keras.layers.LayerNormalization(epsilon=1e-6)
LAYER.build((8, 16))

PAIR = Pair(
    name="keras_layer_norm",
    reference=flax,
    variants={"ops": ops, "layer": layer},
    args={"x": Arg(shape=(8, 16)), "gamma": Arg(shape=(16,)), "beta": Arg(shape=(16,))},
    exemptions=(
        Exemption(variant="layer", dtype="bfloat16", kind="dtype", reason="a Keras layer casts its inputs to float32"),
    ),
    cases=(Case(id="small"),),
    dtypes=("float32", "bfloat16"),
    accuracy=2,
)
test_keras_layer_norm = pair_test(PAIR)
