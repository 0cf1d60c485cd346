"""A product and a sum against the Keras layers `Dense` and `EinsumDense`."""

from __future__ import annotations

import os

os.environ["KERAS_BACKEND"] = "jax"

import keras

from samebits import Arg, Case, Exemption, Pair, pair_test


def product(x, kernel, bias):
    return x @ kernel + bias


def built(layer):
    layer.build((8, 16))
    return lambda x, kernel, bias: layer.stateless_call([kernel, bias], [], x)[0]


PAIR = Pair(
    name="keras_dense",
    reference=product,
    variants={
        "dense": built(keras.layers.Dense(4)),
        "einsum_dense": built(keras.layers.EinsumDense("ab,bc->ac", 4, bias_axes="c")),
    },
    args={"x": Arg(shape=(8, 16)), "kernel": Arg(shape=(16, 4)), "bias": Arg(shape=(4,))},
    exemptions=(
        Exemption(variant="*dense", dtype="bfloat16", kind="dtype", reason="a Keras layer casts its inputs to float32"),
    ),
    cases=(Case(id="small"),),
    dtypes=("float32", "bfloat16"),
    accuracy=2,
)
test_keras_dense = pair_test(PAIR)
