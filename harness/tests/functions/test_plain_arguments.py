"""Arguments as people make them in a hurry: ones and zeros. They hide nothing, and they make nothing different."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import samebits
from tests.check.corpus.optimisers import adam, rate_corrected

ONES = jnp.ones(24)
RATE, BETA = 0.01, 0.9
SCALE = RATE / (1 - BETA**3)


def update(g: Any, m: Any) -> Any:
    """The update of an optimiser, its correction in the moment."""
    return -RATE * ((BETA * m + (1 - BETA) * g) / (1 - BETA**3))


def rescaled(g: Any, m: Any, factor: float = 1.0) -> Any:
    """The same with one factor, which Python computes before the trace, and which is rounded to float32."""
    return -(SCALE * factor) * (m + (1 - BETA) * (g - m))


def stored(g: Any, m: Any) -> Any:
    """What the update is for ones, as a table."""
    return jnp.asarray(np.full(24, -SCALE, np.float32)) + 0 * (g + m)


@pytest.mark.parametrize(
    ("first", "second"), [(adam, rate_corrected), (lambda g, m, v: update(g, m), lambda g, m, v: rescaled(g, m))]
)
def test_factors_that_are_rounded_make_nothing_different(first: Any, second: Any) -> None:
    for arguments in ((ONES, ONES, ONES), (ONES, 2 * ONES, 3 * ONES)):
        compared = samebits.check(first, second, *arguments, gradients=False)
        assert compared.verdict == "rounding", compared.failure()
        assert samebits.prove(first, second, *arguments, gradients=False).verdict != "different"


@pytest.mark.parametrize("factor", [1.0001, 1.00001])
def test_a_wrong_factor_is_different(factor: float) -> None:
    for compare in (samebits.check, samebits.prove):
        assert compare(update, lambda g, m: rescaled(g, m, factor), ONES, ONES, gradients=False).verdict == "different"


def test_a_table_of_results_is_different() -> None:
    for compare in (samebits.check, samebits.prove):
        assert compare(update, stored, ONES, ONES, gradients=False).verdict == "different"


def masked_mean(x: Any, mask: Any) -> Any:
    return jnp.sum(x * mask[:, None], 0) / jnp.maximum(jnp.sum(mask), 1)


def test_a_gradient_that_cancels_out_is_no_other_one() -> None:
    def by_einsum(x: Any, mask: Any, least: float = 1) -> Any:
        return jnp.einsum("sd,s->d", x, mask) / jnp.maximum(jnp.sum(mask), least)

    arguments = jnp.ones((6, 4)), jnp.ones(6)
    compared = samebits.check(masked_mean, by_einsum, *arguments)
    assert compared.verdict in ("rounding", "bitwise"), compared.failure()
    wrong = samebits.check(masked_mean, lambda x, mask: by_einsum(x, mask, 7), *arguments)
    assert wrong.verdict == "different"
