"""Programs with many layers, whose degrees no number of random points is enough for."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from samebits.errors import NotCovered
from samebits.interpret.field_proof import proof
from samebits.interpret.field_proof.proof import LAYERS
from samebits.interpret.field_proof.result import ENOUGH
from tests.interpret.executed import asked

DEPTH, WIDTH = 5 * LAYERS // 2, 4
RANDOM = np.random.default_rng(7)
X = RANDOM.standard_normal((3, WIDTH)).astype(np.float32)
WEIGHTS = (RANDOM.standard_normal((DEPTH, 2, WIDTH, WIDTH)) / 2).astype(np.float32)

Layer = Callable[[jax.Array, jax.Array], jax.Array]


def gated(x: jax.Array, weights: jax.Array) -> jax.Array:
    rms = jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6)
    gate, up = (x * rms) @ weights[0], (x * rms) @ weights[1]
    return x + jax.nn.silu(gate) * up


def in_two_halves(x: jax.Array, weights: jax.Array) -> jax.Array:
    """Sums over the width in two parts, as on two devices."""
    half = WIDTH // 2
    squares = x * x
    rms = jax.lax.rsqrt((jnp.sum(squares[:, :half], -1) + jnp.sum(squares[:, half:], -1))[:, None] / WIDTH + 1e-6)
    gate, up = ((x * rms)[:, :half] @ w[:half] + (x * rms)[:, half:] @ w[half:] for w in (weights[0], weights[1]))
    return jax.nn.silu(gate) * up + x


def stack(layer: Layer, wrong: Layer | None = None, at: int = DEPTH - 3) -> Callable[..., Any]:
    def layers(x: jax.Array, weights: jax.Array) -> jax.Array:
        def body(x: jax.Array, row: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
            number, own = row
            y = layer(x, own)
            return (y if wrong is None else jnp.where(number == at, wrong(x, own), y)), None

        return jax.lax.scan(body, x, (jnp.arange(DEPTH), weights))[0]

    return layers


def gradient(function: Callable[..., Any]) -> Callable[..., Any]:
    return jax.grad(lambda x, weights: jnp.sum(function(x, weights) * X), argnums=(0, 1))


@pytest.mark.parametrize("direction", [lambda function: function, gradient], ids=["forward", "gradient"])
def test_layers_are_proved_however_many(direction: Any) -> None:
    question = asked(direction(stack(gated)), direction(stack(in_two_halves)), X, WEIGHTS)
    for shown in proof.identity(question).values():
        assert shown.equal and shown.log2_error <= ENOUGH and shown.degree <= 4


def test_without_a_deep_domain_no_number_of_points_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proof, "LAYERS", DEPTH + 1)
    question = asked(stack(gated), stack(in_two_halves), X, WEIGHTS)
    with pytest.raises(NotCovered, match="random points would be needed"):
        proof.identity(question)


WRONG: dict[str, Layer] = {
    "one weight for the other": lambda x, w: in_two_halves(x, w[::-1]),
    "a factor close to one": lambda x, w: in_two_halves(x, w) * (1 + 2**-9),
    "no residual": lambda x, w: in_two_halves(x, w) - x,
    "another root": lambda x, w: in_two_halves(x * 1.5, w) - x * 0.5,
    "a product less": lambda x, w: x + jax.nn.silu(x @ w[0]) * (x @ w[1]),
    "a sign": lambda x, w: x - jax.nn.silu(gated(x, w) - x),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_mistake_in_one_layer_is_not_shown_to_be_equal(name: str) -> None:
    question = asked(stack(gated), stack(in_two_halves, WRONG[name]), X, WEIGHTS)
    assert not proof.by_deep_domain(question, "")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == "a sign" else pytest.mark.slow) for name in WRONG]
)
def test_a_mistake_in_one_layer_is_not_the_same(name: str) -> None:
    question = asked(stack(gated), stack(in_two_halves, WRONG[name]), X, WEIGHTS)
    assert not proof.identity(question)["out"].equal


def test_other_laws_are_left_to_other_domains() -> None:
    """Products in another order are other unknown functions; a shallow program is proved with its laws all the same."""

    def times(x: jax.Array, rows: jax.Array, first: bool) -> jax.Array:
        def body(total: jax.Array, row: jax.Array) -> tuple[jax.Array, None]:
            return total + ((x * row) * (row + 1) if first else x * (row * (row + 1))), None

        return jax.lax.scan(body, jnp.zeros_like(x), rows)[0]

    rows = RANDOM.standard_normal((LAYERS, WIDTH)).astype(np.float32)
    question = asked(lambda x, w: times(x, w, True), lambda x, w: times(x, w, False), X, rows)
    assert not proof.by_deep_domain(question, "") and proof.identity(question)["out"].equal


@pytest.mark.parametrize("factor", [2.0, -0.5, 4.0, 3.0])
def test_powers_of_two_pass_through_products(factor: float) -> None:
    """As where `square` has the gradient `g (2 x)` for `(2 g) x`; another factor is another unknown function."""

    def times(x: jax.Array, rows: jax.Array, before: float, after: float) -> jax.Array:
        def body(total: jax.Array, row: jax.Array) -> tuple[jax.Array, None]:
            inner = before * (x * row)
            return total + after * (inner * (row + x) + 1 / (after * jnp.exp(inner / before))), None

        return jax.lax.scan(body, jnp.zeros_like(x), rows)[0]

    rows = RANDOM.standard_normal((LAYERS, WIDTH)).astype(np.float32)
    for after, equal in ((factor, factor != 3), (2 * factor, False)):
        question = asked(lambda x, w: times(x, w, factor, 1.0), lambda x, w, a=after: times(x, w, 1.0, a), X, rows)
        assert bool(proof.by_deep_domain(question, "")) == equal


def test_numbers_that_cancel_have_no_sign() -> None:
    """The sums are other formulas of equal numbers: their difference is noise, whose sign is that of an order."""

    def times(x: jax.Array, rows: jax.Array, others: jax.Array, halves: bool) -> jax.Array:
        def body(total: jax.Array, row: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
            parts = x * row[0]
            whole = parts[:, ::2].sum(-1) + parts[:, 1::2].sum(-1) if halves else parts.sum(-1)
            return total + (whole - (x * row[1]).sum(-1))[:, None] * jnp.sin(x * row[1]), None

        return jax.lax.scan(body, jnp.zeros_like(x), (rows, others))[0]

    rows = RANDOM.standard_normal((LAYERS, WIDTH)).astype(np.float32)
    question = asked(lambda x, w, v: times(x, w, v, False), lambda x, w, v: times(x, w, v, True), X, rows, rows.copy())
    assert proof.by_deep_domain(question, "")
