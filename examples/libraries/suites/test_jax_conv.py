"""`lax.conv` against patches and one product."""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax

from samebits import Arg, Case, Contract, Pair, pair_test


def conv(x, kernel):
    return lax.conv(x, kernel, (1, 1), "SAME")


def by_patches(x, kernel):
    patches = lax.conv_general_dilated_patches(x, (3, 3), (1, 1), "SAME")
    return jnp.einsum("bphw,op->bohw", patches, kernel.reshape(len(kernel), -1))


PAIR = Pair(
    name="jax_conv",
    reference=conv,
    variants={"by_patches": by_patches},
    args={"x": Arg(shape=(2, 3, 6, 6)), "kernel": Arg(shape=(4, 3, 3, 3))},
    contracts=(
        Contract(
            dtype="bfloat16",
            direction="gradient",
            leaf="x",
            lowest="rounding",
            error_ratio=32.0,
            reason="the gradient of the patches adds up 9 of them per element in bfloat16",
        ),
    ),
    cases=(Case(id="small"),),
    dtypes=("float32", "bfloat16"),
    accuracy=2,
)
test_jax_conv = pair_test(PAIR)
