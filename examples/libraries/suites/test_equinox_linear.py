"""Equinox `Linear`, one example at a time under `vmap`, against Flax `Dense`, whose kernel is transposed."""

from __future__ import annotations

import equinox as eqx
import jax
from flax import linen

from samebits import Adapt, Arg, Case, Pair, like, pair_test


def equinox(layer, x):
    return jax.vmap(layer)(x)


def as_flax(layer, x):
    return {"variables": {"params": {"kernel": layer.weight.T, "bias": layer.bias}}, "inputs": x}


PAIR = Pair(
    name="equinox_linear",
    reference=equinox,
    variants={"flax": linen.Dense(4).apply},
    adapt={"flax": Adapt(arguments=as_flax)},
    args={"layer": like(eqx.nn.Linear(16, 4, key=jax.random.key(0))), "x": Arg(shape=(8, 16))},
    cases=(Case(id="small"),),
    dtypes=("float32", "bfloat16"),
    accuracy=2,
)
test_equinox_linear = pair_test(PAIR)
