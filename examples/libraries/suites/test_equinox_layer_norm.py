"""`equinox.nn.LayerNorm` under `vmap` against its `GroupNorm` of one group, and Linen's `LayerNorm`."""

from __future__ import annotations

import equinox as eqx
import jax
from flax import linen

from samebits import Adapt, Arg, Case, Exemption, Pair, like, pair_test


def per_row(layer, x):
    return jax.vmap(layer)(x)


def as_linen(layer, x):
    return {"variables": {"params": {"scale": layer.weight, "bias": layer.bias}}, "x": x}


def group_norm(layer, x):
    group = eqx.tree_at(lambda g: (g.weight, g.bias), eqx.nn.GroupNorm(1, 16), (layer.weight, layer.bias))
    return jax.vmap(group)(x)


PAIR = Pair(
    name="equinox_layer_norm",
    reference=per_row,
    variants={"linen": linen.LayerNorm(epsilon=1e-5, use_fast_variance=False).apply, "group_norm": group_norm},
    adapt={"linen": Adapt(arguments=as_linen)},
    args={"layer": like(eqx.nn.LayerNorm(16)), "x": Arg(shape=(8, 16))},
    exemptions=(
        Exemption(
            variant="linen",
            dtype="bfloat16",
            kind="dtype",
            reason="with float32 weights Equinox returns the dtype of the activations, and Linen float32",
        ),
    ),
    cases=(Case(id="small"),),
    dtypes=("float32", "bfloat16"),
    accuracy=2,
)
test_equinox_layer_norm = pair_test(PAIR)
