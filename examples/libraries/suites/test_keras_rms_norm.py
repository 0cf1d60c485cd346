"""`flax.nnx.RMSNorm` against `keras.ops.rms_normalization`; the scale has the dtype of the activations."""

from __future__ import annotations

import os

os.environ["KERAS_BACKEND"] = "jax"

import keras
from flax import nnx

from samebits import Arg, Case, Pair, pair_test


def flax(x, scale):
    return nnx.RMSNorm(16, scale_init=lambda *_: scale, rngs=nnx.Rngs(0))(x)


def by_keras(x, scale):
    return keras.ops.rms_normalization(x, scale, epsilon=1e-6)


PAIR = Pair(
    name="keras_rms_norm",
    reference=flax,
    variants={"keras": by_keras},
    args={"x": Arg(shape=(8, 16)), "scale": Arg(shape=(16,))},
    cases=(Case(id="small"),),
    dtypes=("float32", "bfloat16"),
    accuracy=2,
)
test_keras_rms_norm = pair_test(PAIR)
