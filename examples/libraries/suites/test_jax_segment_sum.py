"""`jax.ops.segment_sum` against a scatter-add and a product with one-hot rows."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from samebits import Arg, Case, Integers, Pair, pair_test


def segment_sum(data, segment_ids):
    return jax.ops.segment_sum(data, segment_ids, 4)


def scatter_add(data, segment_ids):
    return jnp.zeros((4, data.shape[1]), data.dtype).at[segment_ids].add(data)


def one_hot(data, segment_ids):
    return jax.nn.one_hot(segment_ids, 4, dtype=data.dtype, axis=0) @ data


PAIR = Pair(
    name="jax_segment_sum",
    reference=segment_sum,
    variants={"scatter_add": scatter_add, "one_hot": one_hot},
    args={"data": Arg(shape=(16, 8)), "segment_ids": Arg(shape=(16,), dtype="int32", values=Integers(high=4))},
    cases=(Case(id="small"),),
    dtypes=("float32", "bfloat16"),
    accuracy=2,
)
test_jax_segment_sum = pair_test(PAIR)
