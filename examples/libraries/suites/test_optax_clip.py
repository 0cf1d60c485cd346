"""`optax.clip_by_global_norm` of a tree against the formula."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import optax

from samebits import Arg, Case, Pair, pair_test


def clip(updates):
    return optax.clip_by_global_norm(1.0).update(updates, optax.EmptyState())[0]


def formula(updates):
    norm = jnp.sqrt(sum(jnp.sum(leaf * leaf) for leaf in jax.tree.leaves(updates)))
    return jax.tree.map(lambda leaf: leaf * jnp.minimum(1, 1 / norm), updates)


PAIR = Pair(
    name="optax_clip",
    reference=clip,
    variants={"formula": formula},
    args={"updates": {"kernel": Arg(shape=(8, 16)), "bias": Arg(shape=(16,))}},
    cases=(Case(id="small"),),
    dtypes=("float32", "bfloat16"),
    accuracy=2,
)
test_optax_clip = pair_test(PAIR)
