"""Proofs of formulas at inputs of other magnitudes: thresholds that normal numbers never pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from samebits.interpret.field_proof.proof import FieldIdentity, identity
from samebits.interpret.problem import Input, Question

Side = Callable[..., Any]


def proof(
    reference: Side, variant: Side, names: str = "x", *, stated: bool = False, dtype: str = "float32"
) -> FieldIdentity:
    rng = np.random.default_rng(7)
    arrays: Mapping[str, Any] = {name: rng.standard_normal((4, 6)).astype(jnp.dtype(dtype)) for name in names}
    first, second = (jax.make_jaxpr(side)(*arrays.values()) for side in (reference, variant))
    inputs = [Input(name, array, magnitudes="stated" if stated else "all") for name, array in arrays.items()]
    return identity(Question(first, second, inputs, ["out"]))["out"]


def clipped(g: Any) -> Any:
    return g * jnp.minimum(1.0, 1.0 / jnp.sqrt(jnp.sum(g * g)))


def normalised(g: Any) -> Any:
    return g / jnp.sqrt(jnp.sum(g * g))


def with_history(x: Any, history: Any) -> Any:
    return x / jnp.maximum(jnp.max(jnp.abs(4 * x)), jnp.max(jnp.abs(history)))


def without_history(x: Any, history: Any) -> Any:
    return x / jnp.max(jnp.abs(4 * x))


def routed(x: Any, router: Any, *, capacity: int, in_order: bool = True) -> Any:
    """Each row is multiplied by the number of its expert, or dropped where the expert is full."""
    chosen = jax.nn.one_hot(jnp.argmax(x @ router.T, -1), router.shape[0])
    before = jnp.cumsum(chosen, 0) - chosen
    kept = chosen * (before < capacity) if in_order else chosen
    return x * (kept @ jnp.arange(1.0, router.shape[0] + 1))[:, None]


FAULTS: dict[str, tuple[Side, Side, str, str]] = {
    "saturation at 6": (jax.nn.relu, jax.nn.relu6, "x", "with the inputs 64 times as large"),
    "clip at 50": (lambda x: 2 * x, lambda x: 2 * jnp.clip(x, -50, 50), "x", "with the inputs 64 times as large"),
    "a norm that is clipped": (clipped, normalised, "x", "with the inputs 1024 times smaller"),
    "a history that is ignored": (with_history, without_history, "xh", "with 'h' 64 times as large"),
    "a branch": (lambda x: jnp.where(x > 20, 0, x), lambda x: x + 0, "x", "with the inputs 64 times as large"),
    "a clip beside a fill": (
        lambda x: jnp.where(np.tri(4, 6, dtype=bool), jnp.clip(x, -20, 20), -1e30),
        lambda x: jnp.where(np.tri(4, 6, dtype=bool), jnp.clip(x, -40, 40), -1e30),
        "x",
        "with the inputs 64 times as large",
    ),
    "a capacity": (
        lambda x, router: routed(x, router, capacity=3),
        lambda x, router: routed(x, router, capacity=3, in_order=False),
        "xr",
        "with the rows of 'x' nearly alike",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_threshold_out_of_reach_is_a_fault(fault: str) -> None:
    reference, variant, names, words = FAULTS[fault]
    result = proof(reference, variant, names)
    assert not result.equal and not result.undecided
    assert result.witness is not None
    assert f"in float64, {words} (their values are not stated)" in result.witness


@pytest.mark.parametrize("fault", FAULTS)
def test_stated_values_are_taken_at_their_word(fault: str) -> None:
    reference, variant, names, _ = FAULTS[fault]
    result = proof(reference, variant, names, stated=True)
    assert result.equal and "comparisons" in result.assumed


def masked(x: Any) -> Any:
    return jax.nn.softmax(jnp.where(jnp.tri(4, 6, dtype=bool), x, -1e30), -1)


def by_parts(x: Any) -> Any:
    shifted = jnp.where(jnp.tri(4, 6, dtype=bool), x, -jnp.inf)
    powers = jnp.exp(shifted - shifted.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def softmax_gradient(softmax: Side) -> Side:
    """Of scores of which the largest, 64 times as large, is between 355 and 709.

    Its exponential is in float64's range, and the reciprocal of the square of it is not.
    """
    weights = np.arange(24.0).reshape(4, 6)
    return jax.grad(lambda x: jnp.sum(weights * softmax(5 * x)))


def without_maximum(x: Any) -> Any:
    powers = jnp.exp(x)
    return powers / powers.sum(-1, keepdims=True)


def with_maximum(x: Any) -> Any:
    return without_maximum(x - x.max(-1, keepdims=True))


def beside_a_sink(x: Any, largest: Any) -> Any:
    """The weight of a small score beside a large one and beside a sink, whose score is 0.

    64 times as large, the scores are 800 and 400: without a maximum that is subtracted, the normaliser is infinite and
    the weight zero; with it, the weight is e^-400.
    """
    scores = jnp.stack([41.85 * x[0, 1], 20.92 * x[0, 1]])
    powers = jnp.exp(scores - largest(scores))
    return (powers / (jnp.exp(-largest(scores)) + powers.sum()))[1:]


HONEST: dict[str, tuple[Side, Side]] = {
    "gradient of a softmax without its maximum": (softmax_gradient(with_maximum), softmax_gradient(without_maximum)),
    "a sink beside an infinity": (
        lambda x: beside_a_sink(x, lambda scores: jnp.maximum(scores.max(), 0)),
        lambda x: beside_a_sink(x, lambda scores: 0.0),
    ),
    "softplus, linear above 20": (
        lambda x: jnp.log1p(jnp.exp(x)),
        lambda x: jnp.where(x > 20, x, jnp.log1p(jnp.exp(jnp.minimum(x, 20.0)))),
    ),
    "sigmoid by cases": (
        lambda x: 1 / (1 + jnp.exp(-x)),
        lambda x: jnp.where(x >= 0, 1 / (1 + jnp.exp(-x)), jnp.exp(x) / (1 + jnp.exp(x))),
    ),
    "masked softmax": (masked, by_parts),
    "a capacity by ranks": (
        lambda x: x * (jnp.cumsum(x[:, :1] > 0, 0) <= 2),
        lambda x: jnp.where(jnp.tril(jnp.ones((4, 4))) @ jnp.where(x[:, :1] > 0, 1.0, 0.0) < 2.5, x, 0),
    ),
    "relu by max": (jax.nn.relu, lambda x: jnp.where(x > 0, x, 0)),
    "absolute value": (jnp.abs, lambda x: jnp.maximum(x, -x)),
}


@pytest.mark.parametrize("rewrite", HONEST)
def test_honest_rewrites_stay_the_same_formulas(rewrite: str) -> None:
    assert proof(*HONEST[rewrite]).equal
