"""optax's cross entropy against `keras.ops.sparse_categorical_crossentropy` of logits, and of probabilities."""

from __future__ import annotations

import os

os.environ["KERAS_BACKEND"] = "jax"

import jax
import keras
import optax

from samebits import Arg, Case, Exemption, Integers, Pair, pair_test


def of_logits(logits, labels):
    return keras.ops.sparse_categorical_crossentropy(labels, logits, from_logits=True)


def of_probabilities(logits, labels):
    return keras.ops.sparse_categorical_crossentropy(labels, jax.nn.softmax(logits))


PAIR = Pair(
    name="keras_cross_entropy",
    reference=optax.softmax_cross_entropy_with_integer_labels,
    variants={"of_logits": of_logits, "of_probabilities": of_probabilities},
    args={"logits": Arg(shape=(8, 16)), "labels": Arg(shape=(8,), dtype="int32", values=Integers(high=16))},
    exemptions=(
        Exemption(variant="of_*", dtype="bfloat16", kind="dtype", reason="Keras's loss of bfloat16 logits is float32"),
        Exemption(
            variant="of_probabilities",
            dtype="float32",
            kind="rounding",  # at the numbers drawn, so that no other difference hides behind it
            reason="FINDING: Keras clips probabilities at 1e-7, so that its loss is at most 16.1; of "
            "logits 64 times as large as normal numbers it is up to 290",
        ),
    ),
    cases=(Case(id="small"),),
    dtypes=("float32", "bfloat16"),
    accuracy=2,
)
test_keras_cross_entropy = pair_test(PAIR)
