"""`haiku.Linear` against `flax.nnx.Linear`."""

from __future__ import annotations

import haiku as hk
from flax import nnx

from samebits import Arg, Case, Pair, pair_test


def flax(params, x):
    weights = {"kernel_init": lambda *_: params["linear"]["w"], "bias_init": lambda *_: params["linear"]["b"]}
    return nnx.Linear(16, 4, rngs=nnx.Rngs(0), **weights)(x)


LINEAR = hk.without_apply_rng(hk.transform(lambda x: hk.Linear(4)(x)))

PAIR = Pair(
    name="haiku_linear",
    reference=LINEAR.apply,
    variants={"flax": flax},
    args={"params": {"linear": {"w": Arg(shape=(16, 4)), "b": Arg(shape=(4,))}}, "x": Arg(shape=(8, 16))},
    cases=(Case(id="small"),),
    dtypes=("float32", "bfloat16"),
    accuracy=2,
)
test_haiku_linear = pair_test(PAIR)
