"""`optax.huber_loss` against `jnp.where`."""

from __future__ import annotations

import jax.numpy as jnp
import optax

from samebits import Arg, Case, Pair, pair_test


def where(predictions, targets):
    error = jnp.abs(predictions - targets)
    return jnp.where(error <= 1, 0.5 * error**2, error - 0.5)


PAIR = Pair(
    name="optax_huber",
    reference=optax.huber_loss,
    variants={"where": where},
    args={"predictions": Arg(shape=(8, 16)), "targets": Arg(shape=(8, 16))},
    cases=(Case(id="small"),),
    dtypes=("float32", "bfloat16"),
    accuracy=2,
)
test_optax_huber = pair_test(PAIR)
