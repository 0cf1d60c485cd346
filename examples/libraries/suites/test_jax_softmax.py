"""`jax.nn.softmax` against the exponential of log-softmax, and of the input minus its logsumexp."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from samebits import Arg, Case, Contract, Pair, pair_test


def by_log_softmax(x):
    return jnp.exp(jax.nn.log_softmax(x))


def by_logsumexp(x):
    return jnp.exp(x - jax.nn.logsumexp(x, axis=-1, keepdims=True))


PAIR = Pair(
    name="jax_softmax",
    reference=jax.nn.softmax,
    variants={"by_log_softmax": by_log_softmax, "by_logsumexp": by_logsumexp},
    args={"x": Arg(shape=(8, 16))},
    contracts=(
        Contract(variant="by_logsumexp", lowest="rounding", error_ratio=8.0, reason="logsumexp is rounded before exp"),
    ),
    cases=(Case(id="small"),),
    dtypes=("float32", "bfloat16"),
    accuracy=2,
)
test_jax_softmax = pair_test(PAIR)
