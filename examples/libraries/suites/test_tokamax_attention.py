"""`jax.nn.dot_product_attention` against Tokamax's, in one piece and in chunks."""

from __future__ import annotations

import functools

import jax
import tokamax

from samebits import Arg, Case, Pair, pair_test


def causal(query, key, value):
    return jax.nn.dot_product_attention(query, key, value, is_causal=True)


BTNH = Arg(shape=(2, 6, 2, 4))

PAIR = Pair(
    name="tokamax_attention",
    reference=causal,
    variants={
        "xla": functools.partial(tokamax.dot_product_attention, is_causal=True, implementation="xla"),
        "xla_chunked": functools.partial(tokamax.dot_product_attention, is_causal=True, implementation="xla_chunked"),
    },
    args={"query": BTNH, "key": BTNH, "value": BTNH},
    cases=(Case(id="small"),),
    dtypes=("float32", "bfloat16"),
    accuracy=2,
)
test_tokamax_attention = pair_test(PAIR)
