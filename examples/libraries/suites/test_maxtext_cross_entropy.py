"""optax's cross entropy with a z-loss against MaxText's `cross_entropy_with_logits`, which has its own VJP."""

from __future__ import annotations

import jax
import optax
from maxtext.utils.max_utils import cross_entropy_with_logits

from samebits import Arg, Case, Exemption, Pair, pair_test


def by_optax(logits, targets):
    loss = optax.softmax_cross_entropy(logits, targets)
    return loss + 1e-2 * jax.nn.logsumexp(logits, axis=-1) ** 2


def by_maxtext(logits, targets):
    return cross_entropy_with_logits(logits, targets, 1e-2)[0]


def one_hot_rows(rng, shape):
    return rng.permutation(16)[:8, None] == range(16)


PAIR = Pair(
    name="maxtext_cross_entropy",
    reference=by_optax,
    variants={"maxtext": by_maxtext},
    args={
        "logits": Arg(shape=(8, 16)),
        "targets": Arg(shape=(8, 16), values=one_hot_rows),
    },
    exemptions=(
        Exemption(
            variant="maxtext",
            direction="gradient",
            leaf="targets",
            reason="MaxText's VJP gives the targets no gradient",
        ),
    ),
    cases=(Case(id="small"),),
    dtypes=("float32", "bfloat16"),
    accuracy=2,
)
test_maxtext_cross_entropy = pair_test(PAIR)
