"""`equinox.nn.RMSNorm` under `vmap` against `flax.nnx.RMSNorm` with the same epsilon."""

from __future__ import annotations

import equinox as eqx
import jax
from flax import nnx

from samebits import Arg, Case, Exemption, Pair, like, pair_test


def per_row(layer, x):
    return jax.vmap(layer)(x)


def flax(layer, x):
    return nnx.RMSNorm(16, epsilon=1e-5, scale_init=lambda *_: layer.weight, rngs=nnx.Rngs(0))(x)


PAIR = Pair(
    name="equinox_rms_norm",
    reference=per_row,
    variants={"flax": flax},
    args={"layer": like(eqx.nn.RMSNorm(16, use_bias=False)), "x": Arg(shape=(8, 16))},
    exemptions=(
        Exemption(
            variant="flax",
            dtype="bfloat16",
            kind="dtype",
            reason="with float32 weights Equinox returns the dtype of the activations, and Flax float32",
        ),
    ),
    cases=(Case(id="small"),),
    dtypes=("float32", "bfloat16"),
    accuracy=2,
)
test_equinox_rms_norm = pair_test(PAIR)
