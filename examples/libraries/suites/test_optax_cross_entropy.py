"""`optax.softmax_cross_entropy_with_integer_labels` against one-hot labels, log-softmax, log of softmax."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import optax

from samebits import Arg, Case, Contract, Integers, Pair, pair_test


def one_hot(logits, labels):
    return optax.softmax_cross_entropy(logits, jax.nn.one_hot(labels, 16, dtype=logits.dtype))


def by_log_softmax(logits, labels):
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], axis=-1)[:, 0]


def log_of_softmax(logits, labels):
    return -jnp.log(jnp.take_along_axis(jax.nn.softmax(logits), labels[:, None], axis=-1)[:, 0])


PAIR = Pair(
    name="optax_cross_entropy",
    reference=optax.softmax_cross_entropy_with_integer_labels,
    variants={"one_hot": one_hot, "by_log_softmax": by_log_softmax, "log_of_softmax": log_of_softmax},
    args={"logits": Arg(shape=(8, 16)), "labels": Arg(shape=(8,), dtype="int32", values=Integers(high=16))},
    contracts=(
        Contract(
            variant="log_of_softmax",
            lowest="rounding",
            error_ratio=16.0,
            reason="softmax is rounded before the logarithm",
        ),
    ),
    cases=(Case(id="small"),),
    dtypes=("float32", "bfloat16"),
    accuracy=2,
)
test_optax_cross_entropy = pair_test(PAIR)
