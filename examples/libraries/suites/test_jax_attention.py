"""`jax.nn.dot_product_attention` against Flax's, and against the formula in the dtype of its inputs."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
from flax import nnx

from samebits import Arg, Case, Contract, Pair, pair_test


def formula(query, key, value):
    scores = jnp.einsum("btnh,bsnh->bnts", query, key) / query.shape[-1] ** 0.5
    scores = jnp.where(jnp.tri(query.shape[1], dtype=bool), scores, -jnp.inf)
    return jnp.einsum("bnts,bsnh->btnh", jax.nn.softmax(scores), value)


BTNH = Arg(shape=(2, 6, 2, 4), spec=("dp", None, "tp"))

PAIR = Pair(
    name="jax_attention",
    reference=functools.partial(jax.nn.dot_product_attention, is_causal=True),
    variants={"flax": functools.partial(nnx.dot_product_attention, is_causal=True), "formula": formula},
    args={"query": BTNH, "key": BTNH, "value": BTNH},
    meshes=("none", "dp2_tp2"),
    contracts=(
        Contract(
            variant="formula",
            dtype="bfloat16",
            lowest="rounding",
            error_ratio=16.0,
            reason="scores and weights are bfloat16, the library's are float32",
        ),
    ),
    cases=(Case(id="small"),),
    dtypes=("float32", "bfloat16"),
    accuracy=2,
)
test_jax_attention = pair_test(PAIR)
