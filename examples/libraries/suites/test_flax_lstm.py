"""Linen's `LSTMCell` against `OptimizedLSTMCell`, which multiplies once for all gates."""

from __future__ import annotations

import jax
from flax import linen

from samebits import Arg, Case, Pair, like, pair_test

CARRY, X = (jax.ShapeDtypeStruct((8, 4), "float32"),) * 2, jax.ShapeDtypeStruct((8, 6), "float32")
VARIABLES = jax.eval_shape(linen.LSTMCell(4).init, jax.random.key(0), CARRY, X)


def optimized(variables, carry, inputs):
    return linen.OptimizedLSTMCell(4).apply(variables, carry, inputs)


PAIR = Pair(
    name="flax_lstm",
    reference=linen.LSTMCell(4).apply,
    variants={"optimized": optimized},
    args={"variables": like(VARIABLES), "carry": (Arg(shape=(8, 4)), Arg(shape=(8, 4))), "inputs": Arg(shape=(8, 6))},
    cases=(Case(id="small"),),
    dtypes=("float32", "bfloat16"),
    accuracy=2,
)
test_flax_lstm = pair_test(PAIR)
