"""SwiGLU in two products against `tokamax.gated_linear_unit` with two weights, and with fused ones."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import tokamax

from samebits import Adapt, Arg, Case, Pair, pair_test


def two_products(x, weights):
    gate, up = weights
    return jax.nn.silu(x @ gate) * (x @ up)


def as_fused(x, weights):
    return {"x": x, "weights": jnp.stack(weights, axis=1)}


UNIT = functools.partial(tokamax.gated_linear_unit, activation=jax.nn.silu, implementation="xla")

PAIR = Pair(
    name="tokamax_gated_linear_unit",
    reference=two_products,
    variants={"tokamax": UNIT, "fused": UNIT},
    adapt={"fused": Adapt(arguments=as_fused)},
    args={"x": Arg(shape=(8, 16)), "weights": (Arg(shape=(16, 4)), Arg(shape=(16, 4)))},
    cases=(Case(id="small"),),
    dtypes=("float32", "bfloat16"),
    accuracy=2,
)
test_tokamax_gated_linear_unit = pair_test(PAIR)
