"""`optax.sigmoid_binary_cross_entropy` against the stable formula, and against probabilities."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import optax

from samebits import Arg, Case, Contract, Pair, pair_test


def stable(logits, labels):
    return jnp.maximum(logits, 0) - logits * labels + jnp.log1p(jnp.exp(-jnp.abs(logits)))


def of_probabilities(logits, labels):
    p = jax.nn.sigmoid(logits)
    return -(labels * jnp.log(p) + (1 - labels) * jnp.log(1 - p))


PAIR = Pair(
    name="optax_binary_cross_entropy",
    reference=optax.sigmoid_binary_cross_entropy,
    variants={"stable": stable, "of_probabilities": of_probabilities},
    args={
        "logits": Arg(shape=(8, 16)),
        "labels": Arg(shape=(8, 16), values=lambda rng, shape: rng.integers(0, 2, shape), differentiable=False),
    },
    contracts=(
        Contract(
            variant="of_probabilities",
            lowest="rounding",
            error_ratio=64.0,
            reason="the sigmoid is rounded before the logarithm, and 1 - p cancels",
        ),
    ),
    cases=(Case(id="small"),),
    dtypes=("float32", "bfloat16"),
    accuracy=2,
)
test_optax_binary_cross_entropy = pair_test(PAIR)
