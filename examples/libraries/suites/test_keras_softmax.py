"""`jax.nn.softmax` against `keras.ops.softmax` and the Keras layer."""

from __future__ import annotations

import os

os.environ["KERAS_BACKEND"] = "jax"

import jax
import keras

from samebits import Arg, Case, Exemption, Pair, pair_test

PAIR = Pair(
    name="keras_softmax",
    reference=jax.nn.softmax,
    variants={"ops": keras.ops.softmax, "layer": keras.layers.Softmax()},
    args={"inputs": Arg(shape=(8, 16))},
    rename={"inputs": "x"},
    exemptions=(
        Exemption(variant="layer", dtype="bfloat16", kind="dtype", reason="a Keras layer casts its inputs to float32"),
    ),
    cases=(Case(id="small"),),
    dtypes=("float32", "bfloat16"),
    accuracy=2,
)
test_keras_softmax = pair_test(PAIR)
