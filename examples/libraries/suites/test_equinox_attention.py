"""`equinox.nn.MultiheadAttention` against Linen's, whose kernels have an axis of heads and are transposed."""

from __future__ import annotations

import equinox as eqx
import jax
from flax import linen

from samebits import Adapt, Arg, Case, Pair, like, pair_test


def per_sequence(layer, x):
    return jax.vmap(lambda row: layer(row, row, row))(x)


def as_linen(layer, x):
    projections = {"query": layer.query_proj, "key": layer.key_proj, "value": layer.value_proj}
    params = {name: {"kernel": linear.weight.T.reshape(8, 2, 4)} for name, linear in projections.items()}
    params["out"] = {"kernel": layer.output_proj.weight.T.reshape(2, 4, 8)}
    return {"variables": {"params": params}, "inputs_q": x}


LAYER = eqx.nn.MultiheadAttention(2, 8, key=jax.random.key(0))

PAIR = Pair(
    name="equinox_attention",
    reference=per_sequence,
    variants={"linen": linen.MultiHeadDotProductAttention(2, use_bias=False).apply},
    adapt={"linen": Adapt(arguments=as_linen)},
    args={"layer": like(LAYER), "x": Arg(shape=(2, 6, 8))},
    cases=(Case(id="small"),),
    dtypes=("float32", "bfloat16"),
    accuracy=2,
)
test_equinox_attention = pair_test(PAIR)
