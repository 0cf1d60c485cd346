"""Two steps of `optax.adamw` against the chain that it consists of, `inject_hyperparams` and the formula."""

from __future__ import annotations

import jax.numpy as jnp
import optax

from samebits import Arg, Case, Exemption, Pair, pair_test


def steps(optimizer):
    def two_steps(params, grads):
        state = optimizer.init(params)
        for grad in grads:
            updates, state = optimizer.update(grad, state, params)
            params = optax.apply_updates(params, updates)
        return params

    return two_steps


def formula(params, grads):
    first, second = (1 - 0.9) * grads[0], (1 - 0.999) * grads[0] ** 2
    params = params - 1e-3 * (first / (1 - 0.9) / (jnp.sqrt(second / (1 - 0.999)) + 1e-8) + 1e-4 * params)
    first, second = 0.9 * first + (1 - 0.9) * grads[1], 0.999 * second + (1 - 0.999) * grads[1] ** 2
    return params - 1e-3 * (first / (1 - 0.9**2) / (jnp.sqrt(second / (1 - 0.999**2)) + 1e-8) + 1e-4 * params)


CHAIN = optax.chain(optax.scale_by_adam(), optax.add_decayed_weights(1e-4), optax.scale_by_learning_rate(1e-3))

PAIR = Pair(
    name="optax_adamw",
    reference=steps(optax.adamw(1e-3)),
    variants={
        "chain": steps(CHAIN),
        "inject": steps(optax.inject_hyperparams(optax.adamw)(1e-3)),
        "formula": formula,
    },
    args={"params": Arg(shape=(8, 6)), "grads": [Arg(shape=(8, 6)), Arg(shape=(8, 6))]},
    gradients=False,
    exemptions=(
        Exemption(
            variant="inject",
            dtype="bfloat16",
            reason="inject_hyperparams casts b2=0.999 to the dtype of the parameters: 1.0 in bfloat16, so 0/0 is NaN",
        ),
    ),
    cases=(
        Case(id="wide", dtypes=("float32",)),
        # The formula's constants would be rounded to bfloat16, where optax computes them in float32.
        Case(id="narrow", dtypes=("bfloat16",), variants=("chain", "inject")),
    ),
    dtypes=("float32", "bfloat16"),
    accuracy=2,
)
test_optax_adamw = pair_test(PAIR)
