"""Adversaries that differ only outside the tested inputs: other ranges, ties, other integers."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tests.check.corpus.adversary import Adversary, same, twice
from tests.check.corpus.formula import integers, normal, uniform

X = {"x": normal(24)}
POSITIVE = {"x": uniform(24, low=0.1, high=2.0)}
XY = {"x": normal(24), "y": normal(24)}
ROWS = {"x": normal(4, 6)}
IDS = {"x": normal(12, 5), "ids": integers(7, high=12)}


def softmax(x: Any) -> Any:
    return jax.nn.softmax(x, -1)


def by_ids(x: Any, ids: Any) -> Any:
    return x[:7] * ids[:, None]


def _vanishing(x: Any, ids: Any) -> Any:
    product = jnp.ones_like(ids)
    for i in range(12):
        product = product * (ids - i)
    return x[:7] * (ids + product)[:, None]


def _iterated(steps: int) -> Any:
    def root(x: Any) -> Any:
        return jax.lax.fori_loop(0, steps, lambda _, y: 0.5 * (y + x / y), x)

    return root


def steps(x: Any, ids: Any) -> Any:
    return jax.lax.fori_loop(0, ids[0] + 1, lambda _, y: y * 0.5, x)


ALL = (
    Adversary("branch_above_a_hundred", twice, lambda x: jnp.where(x > 100, 0, 2 * x), X, ()),
    Adversary(
        "branch_on_the_sum", twice, lambda x: jax.lax.cond(jnp.sum(x) > 1e6, lambda: 3 * x, lambda: 2 * x), X, ()
    ),
    Adversary("clipped_exponent", lambda x: jnp.exp(x), lambda x: jnp.exp(jnp.minimum(x, 80)), X, ()),
    Adversary(
        "mask_of_a_thousand",
        lambda x: jax.nn.softmax(jnp.where(np.arange(6) < 4, x, -jnp.inf), -1),
        lambda x: jax.nn.softmax(jnp.where(np.arange(6) < 4, x, -1000.0), -1),
        ROWS,
        (),
    ),
    Adversary("term_that_underflows", same, lambda x: x + jnp.exp(x - 800), X, ()),
    Adversary(
        "last_of_ties",
        lambda x: jax.nn.one_hot(jnp.argmax(x, -1), 6) * x,
        lambda x: jax.nn.one_hot(5 - jnp.argmax(x[:, ::-1], -1), 6) * x,
        ROWS,
        (),
    ),
    Adversary(
        "ids_out_of_range",
        lambda x, ids: x.at[ids].get(mode="fill", fill_value=0),
        lambda x, ids: x.at[ids].get(mode="clip"),
        IDS,
        (),
    ),
    Adversary("polynomial_that_vanishes_on_the_ids", by_ids, _vanishing, IDS, ()),
    Adversary("ids_in_eight_bits", by_ids, lambda x, ids: x[:7] * ids.astype(jnp.int8)[:, None], IDS, ()),
    Adversary(
        "trip_count_capped",
        steps,
        lambda x, ids: jax.lax.fori_loop(0, jnp.minimum(ids[0], 30) + 1, lambda _, y: y * 0.5, x),
        IDS,
        (),
        gradients=False,
    ),
    Adversary(
        "zero_divisor_guarded",
        lambda x, y: x / y,
        lambda x, y: jnp.where(y == 0, 0, x / jnp.where(y == 0, 1, y)),
        XY,
        (),
    ),
    Adversary("root_of_the_square", same, lambda x: jnp.sqrt(x * x), X),
    Adversary("root_of_the_square_of_positive_numbers", same, lambda x: jnp.sqrt(x * x), POSITIVE, ()),
    Adversary("magnitude_of_positive_numbers", same, lambda x: jnp.abs(x), POSITIVE, ()),
    Adversary("relu_of_positive_numbers", same, lambda x: jax.nn.relu(x), POSITIVE, ()),
    Adversary("lowest_bound", same, lambda x: jnp.maximum(x, -50.0), X, ()),
    Adversary("remainder", same, lambda x: jnp.fmod(x, 100.0), X, ()),
    Adversary("half_rounded_up", lambda x: jnp.round(x), lambda x: jnp.floor(x + 0.5), X, (), gradients=False),
    Adversary("nan_guarded", same, lambda x: jnp.where(jnp.isnan(x), 0, x), X, ()),
    Adversary("softmax_without_maximum", softmax, lambda x: jnp.exp(x) / jnp.exp(x).sum(-1, keepdims=True), ROWS, ()),
    Adversary(
        "product_of_exponentials", lambda x, y: jnp.exp(x + y), lambda x, y: jnp.exp(x - 60) * jnp.exp(y + 60), XY, ()
    ),
    Adversary("scaled_up_and_down", same, lambda x: x * 2.0**100 * 2.0**-100, X, ()),
    Adversary("fewer_iterations", lambda x: _iterated(12)(x), _iterated(6), POSITIVE),
)
