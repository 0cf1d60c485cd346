"""Loops of two programs that carry the same: what is compared with what they carry has one answer in both."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from samebits.sizes.formulas.normal_form import ALIKE
from samebits.sizes.proofs.family import Family, Shaped
from samebits.sizes.proofs.family_proof import prove_all_sizes

Step = Callable[[jax.Array, jax.Array], jax.Array]
LAYERS = Family(symbols={"m": 1, "layers": 1}, args={"x": Shaped(("m",)), "w": Shaped(("layers", "m"))})
NESTED = Family(
    symbols={"t": 1, "m": 1, "layers": 1}, args={"x": Shaped(("t", "m")), "w": Shaped(("t", "layers", "m"))}
)


def rectified(carry: jax.Array, w: jax.Array) -> jax.Array:
    return carry + jnp.square(jnp.maximum(carry * w, 0))


def chosen(carry: jax.Array, w: jax.Array) -> jax.Array:
    return jnp.where(carry + w > 0, carry * w, carry)


STEPS: dict[str, Step] = {"rectified": rectified, "chosen": chosen}
WRONG: dict[str, Step] = {
    "at least": lambda carry, w: jnp.where(carry + w >= 1, carry * w, carry),
    "other side": lambda carry, w: jnp.where(carry + w > 0, carry, carry * w),
    "of the weights": lambda carry, w: jnp.where(w > 0, carry * w, carry),
    "of the carry": lambda carry, w: jnp.where(carry > 0, carry * w, carry),
    "twice": lambda carry, w: jnp.where(carry + w > 0, 2 * carry * w, carry),
}


def stack(step: Step, start: float = 1.0, dropped: int = 0, reverse: bool = False) -> Callable[..., Any]:
    def function(x: jax.Array, w: jax.Array) -> jax.Array:
        weights = w[: w.shape[0] - dropped] if dropped else w
        return lax.scan(lambda carry, own: (step(carry, own), None), start * x, weights, reverse=reverse)[0]

    return function


def nested(step: Step, recomputed: Callable[[Any], Any]) -> Callable[..., Any]:
    def inner(carry: jax.Array, w: jax.Array) -> jax.Array:
        return lax.scan(lambda carry, own: (step(carry, own), None), carry, w)[0]

    def function(x: jax.Array, w: jax.Array) -> jax.Array:
        return lax.scan(lambda c, own: (recomputed(inner)(c + own[0], own[1]), None), jnp.zeros_like(x[0]), (x, w))[0]

    return function


@pytest.mark.parametrize("direction", ["forward", "gradient"])
@pytest.mark.parametrize("name", STEPS)
def test_a_loop_of_comparisons_may_be_computed_again(name: str, direction: str) -> None:
    step = STEPS[name]
    for proof in prove_all_sizes(stack(step), stack(jax.checkpoint(step)), LAYERS, direction):
        assert proof.verdict == "rounding", proof.reason
        assert (ALIKE in proof.conditions) is (direction == "gradient" or name == "chosen")


@pytest.mark.slow
@pytest.mark.parametrize("name", STEPS)
def test_a_loop_in_a_loop_may_be_computed_again(name: str) -> None:
    step = STEPS[name]
    sides = nested(step, lambda inner: inner), nested(step, jax.checkpoint)
    for proof in prove_all_sizes(*sides, NESTED, "gradient"):
        assert proof.verdict == "rounding", proof.reason
    wrong = nested(WRONG["other side"], jax.checkpoint)
    for proof in prove_all_sizes(sides[0], wrong, NESTED, "gradient"):
        assert proof.verdict in ("different", "error")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", WRONG)
def test_a_loop_that_compares_otherwise_is_not_proved(name: str) -> None:
    sides = stack(chosen), stack(jax.checkpoint(WRONG[name]))
    proofs = prove_all_sizes(*sides, LAYERS, "gradient")
    assert all(proof.verdict in ("different", "error") for proof in proofs), proofs
    assert any(proof.verdict == "different" for proof in proofs), proofs


@pytest.mark.sampled(1)
@pytest.mark.parametrize("other", [{"start": 2.0}, {"dropped": 1}, {"reverse": True}], ids=str)
def test_a_loop_that_begins_or_runs_otherwise_is_not_proved(other: dict[str, Any]) -> None:
    family = LAYERS if "dropped" not in other else Family(symbols={"m": 1, "layers": 2}, args=LAYERS.args)
    proofs = prove_all_sizes(stack(chosen), stack(jax.checkpoint(chosen), **other), family, "gradient")
    assert all(proof.verdict in ("different", "error") for proof in proofs), proofs


def test_an_element_that_a_loop_decides_on_is_no_promise_of_bits() -> None:
    def deciding(step: Step) -> Callable[..., Any]:
        return lambda x, w: jnp.where(stack(step)(x, w) > 0, x, w[0])

    def bounded(carry: jax.Array, w: jax.Array) -> jax.Array:
        return jnp.tanh(carry * w)

    (proof,) = prove_all_sizes(deciding(bounded), deciding(jax.checkpoint(bounded)), LAYERS)
    assert proof.verdict == "rounding", proof.reason
    assert ALIKE in proof.conditions


def test_integers_that_overflow_in_a_loop_are_a_condition() -> None:
    family = Family(symbols={"m": 1, "layers": 1}, args={"x": Shaped(("m",)), "i": Shaped(("layers", "m"), "int32")})

    def deciding(step: Step) -> Callable[..., Any]:
        def function(x: jax.Array, i: jax.Array) -> jax.Array:
            last = lax.scan(lambda carry, own: (step(carry, own), None), i[0], i)[0]
            return jnp.where(last > 0, x, 0)

        return function

    wrapped = deciding(lambda carry, own: (jnp.minimum(carry, own) * 65536) // 65536)
    (proof,) = prove_all_sizes(deciding(jnp.minimum), wrapped, family)
    assert proof.verdict != "proved" or any("65536*i[...] <= 2147483647" in text for text in proof.conditions)
    assert proof.verdict != "rounding" or any("65536*i[...] <= 2147483647" in text for text in proof.conditions)
