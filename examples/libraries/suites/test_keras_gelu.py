"""`jax.nn.gelu` against `keras.ops.gelu` and `keras.activations.gelu`, all with their defaults."""

from __future__ import annotations

import os

os.environ["KERAS_BACKEND"] = "jax"

import jax
import keras

from samebits import Arg, Case, Exemption, Pair, pair_test

PAIR = Pair(
    name="keras_gelu",
    reference=jax.nn.gelu,
    variants={"ops": keras.ops.gelu, "activations": keras.activations.gelu},
    args={"x": Arg(shape=(8, 16))},
    exemptions=(
        Exemption(variant="activations", reason="approximates by default in ops.gelu, and not in activations.gelu"),
    ),
    cases=(Case(id="small"),),
    dtypes=("float32", "bfloat16"),
    accuracy=2,
)
test_keras_gelu = pair_test(PAIR)
