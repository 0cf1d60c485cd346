"""`equinox.nn.RotaryPositionalEmbedding` against the formula with its own table of angles."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp

from samebits import Arg, Case, Pair, pair_test

# Computed outside of jit, as Equinox does: the compiler's own cos and sin have other bits.
ANGLES = jnp.arange(6.0)[:, None] * (1.0 / 10000.0 ** (jnp.arange(0.0, 8, 2) / 8))
COS, SIN = jnp.tile(jnp.cos(ANGLES), 2), jnp.tile(jnp.sin(ANGLES), 2)


def formula(x):
    first, second = jnp.split(x, 2, axis=-1)
    return (x * COS + jnp.concatenate([-second, first], axis=-1) * SIN).astype(x.dtype)


PAIR = Pair(
    name="equinox_rope",
    reference=eqx.nn.RotaryPositionalEmbedding(8),
    variants={"formula": formula},
    args={"x": Arg(shape=(6, 8))},
    cases=(Case(id="small"),),
    dtypes=("float32", "bfloat16"),
    accuracy=2,
)
test_equinox_rope = pair_test(PAIR)
