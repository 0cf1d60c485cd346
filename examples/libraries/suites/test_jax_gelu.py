"""`jax.nn.gelu` without approximation against the formula with erf, and against its own default, which approximates."""

from __future__ import annotations

import jax
import numpy as np
from jax import lax

from samebits import Arg, Case, Contract, Exemption, Pair, pair_test


def exact(x):
    return jax.nn.gelu(x, approximate=False)


def by_erf(x):
    return 0.5 * x * (1 + lax.erf(x * np.sqrt(0.5).astype(x.dtype)))


PAIR = Pair(
    name="jax_gelu",
    reference=exact,
    variants={"by_erf": by_erf, "default": jax.nn.gelu},
    args={"x": Arg(shape=(8, 16))},
    contracts=(
        Contract(
            variant="by_erf",
            dtype="bfloat16",
            lowest="rounding",
            error_ratio=16.0,
            reason="1 + erf cancels for negative numbers, which the library's erfc does not",
        ),
    ),
    exemptions=(Exemption(variant="default", reason="the default is the tanh approximation: off by up to 5e-4"),),
    cases=(Case(id="small"),),
    dtypes=("float32", "bfloat16"),
    accuracy=2,
)
test_jax_gelu = pair_test(PAIR)
