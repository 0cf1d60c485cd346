"""MaxText's `RotaryEmbedding` of halves against its `LLaMARotaryEmbedding` of neighbours, features permuted."""

from __future__ import annotations

import jax.numpy as jnp
from maxtext.layers.embeddings import LLaMARotaryEmbedding, RotaryEmbedding

from samebits import Arg, Case, Pair, pair_test

SETTINGS = {"min_timescale": 1, "max_timescale": 10_000, "mesh": None, "embedding_dims": 8, "fprop_dtype": jnp.float32}


def halves(x):
    return RotaryEmbedding(**SETTINGS)(x, position=jnp.arange(6)[None])


def neighbours(x):
    paired = jnp.stack(jnp.split(x, 2, axis=-1), axis=-1).reshape(x.shape)
    rotated = LLaMARotaryEmbedding(**SETTINGS, use_scale=False)(paired)
    return jnp.concatenate([rotated[..., ::2], rotated[..., 1::2]], axis=-1)


PAIR = Pair(
    name="maxtext_rope",
    reference=halves,
    variants={"neighbours": neighbours},
    args={"x": Arg(shape=(2, 6, 2, 8))},
    dtypes=("float32",),
    cases=(Case(id="small"),),
    accuracy=2,
)
test_maxtext_rope = pair_test(PAIR)
