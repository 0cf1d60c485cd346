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


def exponential(x: Any) -> Any:
    return jnp.exp(x)


def quotient(x: Any, y: Any) -> Any:
    return x / y


def softmax(x: Any) -> Any:
    return jax.nn.softmax(x, -1)


def masked(x: Any) -> Any:
    return jax.nn.softmax(jnp.where(np.arange(6) < 4, x, -jnp.inf), -1)


def largest(x: Any) -> Any:
    return jax.nn.one_hot(jnp.argmax(x, -1), 6) * x


def _last_largest(x: Any) -> Any:
    return jax.nn.one_hot(5 - jnp.argmax(x[:, ::-1], -1), 6) * x


def gathered(x: Any, ids: Any) -> Any:
    return x.at[ids].get(mode="fill", fill_value=0)


def by_ids(x: Any, ids: Any) -> Any:
    return x[:7] * ids[:, None]


def _vanishing(x: Any, ids: Any) -> Any:
    product = jnp.ones_like(ids)
    for i in range(12):
        product = product * (ids - i)
    return x[:7] * (ids + product)[:, None]


def rounded(x: Any) -> Any:
    return jnp.round(x)


def _iterated(steps: int) -> Any:
    def root(x: Any) -> Any:
        return jax.lax.fori_loop(0, steps, lambda _, y: 0.5 * (y + x / y), x)

    return root


def newton(x: Any) -> Any:
    return _iterated(12)(x)


def steps(x: Any, ids: Any) -> Any:
    return jax.lax.fori_loop(0, ids[0] + 1, lambda _, y: y * 0.5, x)


ALL = (
    Adversary(
        name="branch_above_a_hundred", reference=twice, other=lambda x: jnp.where(x > 100, 0, 2 * x), args=X, refuted=()
    ),
    Adversary(
        name="branch_on_the_sum",
        reference=twice,
        other=lambda x: jax.lax.cond(jnp.sum(x) > 1e6, lambda: 3 * x, lambda: 2 * x),
        args=X,
        refuted=(),
    ),
    Adversary(
        name="clipped_exponent", reference=exponential, other=lambda x: jnp.exp(jnp.minimum(x, 80)), args=X, refuted=()
    ),
    Adversary(
        name="mask_of_a_thousand",
        reference=masked,
        other=lambda x: jax.nn.softmax(jnp.where(np.arange(6) < 4, x, -1000.0), -1),
        args=ROWS,
        refuted=(),
    ),
    Adversary(name="term_that_underflows", reference=same, other=lambda x: x + jnp.exp(x - 800), args=X, refuted=()),
    Adversary(name="last_of_ties", reference=largest, other=_last_largest, args=ROWS, refuted=()),
    Adversary(
        name="ids_out_of_range",
        reference=gathered,
        other=lambda x, ids: x.at[ids].get(mode="clip"),
        args=IDS,
        refuted=(),
    ),
    Adversary(name="polynomial_that_vanishes_on_the_ids", reference=by_ids, other=_vanishing, args=IDS, refuted=()),
    Adversary(
        name="ids_in_eight_bits",
        reference=by_ids,
        other=lambda x, ids: x[:7] * ids.astype(jnp.int8)[:, None],
        args=IDS,
        refuted=(),
    ),
    Adversary(
        name="trip_count_capped",
        reference=steps,
        other=lambda x, ids: jax.lax.fori_loop(0, jnp.minimum(ids[0], 30) + 1, lambda _, y: y * 0.5, x),
        args=IDS,
        gradients=False,
        refuted=(),
    ),
    Adversary(
        name="zero_divisor_guarded",
        reference=quotient,
        other=lambda x, y: jnp.where(y == 0, 0, x / jnp.where(y == 0, 1, y)),
        args=XY,
        refuted=(),
    ),
    Adversary(name="root_of_the_square", reference=same, other=lambda x: jnp.sqrt(x * x), args=X),
    Adversary(
        name="root_of_the_square_of_positive_numbers",
        reference=same,
        other=lambda x: jnp.sqrt(x * x),
        args=POSITIVE,
        refuted=(),
    ),
    Adversary(
        name="magnitude_of_positive_numbers", reference=same, other=lambda x: jnp.abs(x), args=POSITIVE, refuted=()
    ),
    Adversary(
        name="relu_of_positive_numbers", reference=same, other=lambda x: jax.nn.relu(x), args=POSITIVE, refuted=()
    ),
    Adversary(name="lowest_bound", reference=same, other=lambda x: jnp.maximum(x, -50.0), args=X, refuted=()),
    Adversary(name="remainder", reference=same, other=lambda x: jnp.fmod(x, 100.0), args=X, refuted=()),
    Adversary(
        name="half_rounded_up",
        reference=rounded,
        other=lambda x: jnp.floor(x + 0.5),
        args=X,
        gradients=False,
        refuted=(),
    ),
    Adversary(name="nan_guarded", reference=same, other=lambda x: jnp.where(jnp.isnan(x), 0, x), args=X, refuted=()),
    Adversary(
        name="softmax_without_maximum",
        reference=softmax,
        other=lambda x: jnp.exp(x) / jnp.exp(x).sum(-1, keepdims=True),
        args=ROWS,
        refuted=(),
    ),
    Adversary(
        name="product_of_exponentials",
        reference=lambda x, y: jnp.exp(x + y),
        other=lambda x, y: jnp.exp(x - 60) * jnp.exp(y + 60),
        args=XY,
        refuted=(),
    ),
    Adversary(name="scaled_up_and_down", reference=same, other=lambda x: x * 2.0**100 * 2.0**-100, args=X, refuted=()),
    Adversary(name="fewer_iterations", reference=newton, other=_iterated(6), args=POSITIVE),
)
