"""`jax.nn.dot_product_attention` against `keras.ops.dot_product_attention`."""

from __future__ import annotations

import os

os.environ["KERAS_BACKEND"] = "jax"

import functools

import jax
import keras

from samebits import Arg, Case, Pair, pair_test


def causal(query, key, value):
    return jax.nn.dot_product_attention(query, key, value, is_causal=True)


BTNH = Arg(shape=(2, 6, 2, 4))

PAIR = Pair(
    name="keras_attention",
    reference=causal,
    variants={"keras": functools.partial(keras.ops.dot_product_attention, is_causal=True, flash_attention=False)},
    args={"query": BTNH, "key": BTNH, "value": BTNH},
    cases=(Case(id="small"),),
    dtypes=("float32", "bfloat16"),
    accuracy=2,
)
test_keras_attention = pair_test(PAIR)
