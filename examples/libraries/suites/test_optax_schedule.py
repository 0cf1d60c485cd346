"""`optax.cosine_decay_schedule` against the formula and against the schedule with a warmup of no steps."""

from __future__ import annotations

import jax.numpy as jnp
import optax

from samebits import Arg, Case, Integers, Pair, pair_test


def formula(count):
    return 0.5 * (1 + jnp.cos(jnp.pi * jnp.minimum(count, 100) / 100))


PAIR = Pair(
    name="optax_schedule",
    reference=optax.cosine_decay_schedule(1.0, 100),
    variants={"formula": formula, "warmup": optax.warmup_cosine_decay_schedule(1.0, 1.0, 0, 100)},
    args={"count": Arg(shape=(16,), dtype="int32", values=Integers(high=120))},
    rename={"count": "step"},
    dtypes=("float32",),
    gradients=False,
    cases=(Case(id="small"),),
    accuracy=2,
)
test_optax_schedule = pair_test(PAIR)
