"""optax's cross entropy of logits that are a product, against `tokamax.linear_softmax_cross_entropy_loss`."""

from __future__ import annotations

import functools

import optax
import tokamax

from samebits import Arg, Case, Exemption, Integers, Pair, pair_test


def by_optax(x, labels, weights):
    return optax.softmax_cross_entropy_with_integer_labels(x @ weights, labels).sum()


PAIR = Pair(
    name="tokamax_cross_entropy",
    reference=by_optax,
    variants={"tokamax": functools.partial(tokamax.linear_softmax_cross_entropy_loss, implementation="xla")},
    args={
        "x": Arg(shape=(8, 16)),
        "labels": Arg(shape=(8,), dtype="int32", values=Integers(high=32)),
        "weights": Arg(shape=(16, 32)),
    },
    exemptions=(
        Exemption(
            variant="tokamax",
            dtype="bfloat16",
            kind="dtype",
            reason="of bfloat16 inputs Tokamax's loss and both gradients are float32",
        ),
    ),
    cases=(Case(id="small"),),
    dtypes=("float32", "bfloat16"),
    accuracy=2,
)
test_tokamax_cross_entropy = pair_test(PAIR)
