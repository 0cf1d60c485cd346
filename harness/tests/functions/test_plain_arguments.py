"""Arguments as people make them in a hurry: ones and zeros. They hide nothing, and they make nothing different."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import samebits
from samebits.check import error_groups, rounding
from tests.check.corpus.optimisers import adam, rate_corrected

# Of NumPy: an array of jax would start a backend as tests are collected.
ONES = np.ones(24, np.float32)
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


@pytest.mark.filterwarnings("ignore::samebits.OtherInputsWarning")  # at an infinite second moment
@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(adam, rate_corrected, marks=pytest.mark.slow),
        (lambda g, m, v: update(g, m), lambda g, m, v: rescaled(g, m)),
    ],
)
def test_factors_that_are_rounded_make_nothing_different(first: Any, second: Any) -> None:
    for arguments in ((ONES, ONES, ONES), (ONES, 2 * ONES, 3 * ONES)):
        compared = samebits.check(first, second, *arguments, gradients=False)
        assert compared.verdict == "rounding", compared.failure()
        assert samebits.prove(first, second, *arguments, gradients=False).verdict != "different"


@pytest.mark.filterwarnings("ignore::samebits.OtherInputsWarning")  # at an infinite second moment
def test_factors_that_were_computed_are_the_variants_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the bias of a reference, which differs between versions of jax, no operation of the variant has it."""
    moved, honest = [], error_groups.without_constants

    def noted(*arrays: Any) -> Any:
        result = honest(*arrays)
        moved.append(result[1])
        return result

    monkeypatch.setattr(rounding, "without_constants", noted)
    assert samebits.check(adam, rate_corrected, ONES, 2 * ONES, 3 * ONES, gradients=False).verdict == "rounding"
    assert moved and 0 < max(moved) < 2


def weighted(x: Any, last: float = 0.0) -> Any:
    """Averages with weights that NumPy computes before the trace."""
    weights = 0.1 * 0.9 ** np.arange(6)
    weights[-1] += last
    return x @ jnp.asarray(weights[::-1].copy(), jnp.float32)


def averaged(x: Any) -> Any:
    """The same average, step by step."""
    return jax.lax.scan(lambda mean, row: (0.9 * mean + 0.1 * row, None), jnp.zeros(x.shape[0]), x.T)[0]


ZEROS = np.zeros((8, 6), np.float32)
SPARSE = np.random.default_rng(3).normal(size=(8, 6)).astype(np.float32)
SPARSE[:, ::2] = 0


@pytest.mark.sampled(1)
@pytest.mark.parametrize("x", [ZEROS, SPARSE], ids=["zeros", "sparse"])
def test_weights_that_are_rounded_make_nothing_different(x: Any) -> None:
    assert samebits.check(averaged, weighted, x).verdict == "rounding"
    assert samebits.prove(averaged, weighted, x, gradients=False).verdict != "different"
    for compare in (samebits.check, samebits.prove):
        # The wrong weight is that of a column of zeros: only the gradient shows it.
        assert compare(averaged, lambda x: weighted(x, 1e-4), x).verdict == "different"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.filterwarnings("ignore::samebits.OtherInputsWarning")  # at an infinite input
def test_what_saturates_is_no_other_formula(seed: int) -> None:
    """Of large numbers 1 - sigmoid(x) is 0 in float64, and a softmax has 1e-70 in its place."""
    x = jnp.asarray(np.random.default_rng(seed).normal(size=(16, 2)) * 1e4, jnp.float32)
    compared = samebits.check(lambda x: jax.nn.softmax(x)[:, 0], lambda x: jax.nn.sigmoid(x[:, 0] - x[:, 1]), x)
    assert compared.verdict in ("rounding", "bitwise"), compared.failure()
    first, second = lambda x: jax.nn.softmax(x)[:, 0], lambda x: jax.nn.sigmoid(x[:, 1] - x[:, 0])
    assert samebits.check(first, second, x, gradients=False).verdict == "different"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("factor", [1.0001, 1.00001])
def test_a_wrong_factor_is_different(factor: float) -> None:
    for compare in (samebits.check, samebits.prove):
        assert compare(update, lambda g, m: rescaled(g, m, factor), ONES, ONES, gradients=False).verdict == "different"


def test_a_table_of_results_is_different() -> None:
    for compare in (samebits.check, samebits.prove):
        assert compare(update, stored, ONES, ONES, gradients=False).verdict == "different"


def test_a_tie_is_named_with_its_numbers() -> None:
    compared = samebits.prove(lambda x: jnp.maximum(x, 0), lambda x: jnp.where(x > 0, x, 0), jnp.zeros((3, 4)))
    assert compared.verdict == "error"
    assert "compares 0.0 and 0.0, too close to say which is larger" in str(compared.leaves[0].ruling.reason)


def test_an_array_without_elements_is_nothing_to_compare() -> None:
    def scaled(x: Any, scale: Any) -> Any:
        return x / jnp.sqrt(jnp.mean(x * x, -1, keepdims=True)) * scale

    compared = samebits.check(scaled, lambda x, scale: scale * x, jnp.ones((0, 4)), jnp.ones(4), gradients=False)
    assert compared.verdict == "error"
    assert "'out' has no elements; nothing was compared" in str(compared)
