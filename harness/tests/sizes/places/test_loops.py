"""Loops of symbolic length: carries by induction, and equal loops."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from samebits.sizes.proofs.family_proof import prove_all_sizes
from tests.sizes.proofs.moved_faults import ROWS


def _folded(x: Any, *, factor: float = 1.0) -> Any:
    return lax.scan(lambda held, row: (held * jnp.tanh(factor * row), None), jnp.ones_like(x[0]), x)[0]


def test_equal_loops_are_equal_formulas() -> None:
    def counting(x: Any) -> Any:
        def body(held: Any, row: Any) -> tuple[Any, None]:
            number, made = held
            return (number + 1, made * jnp.tanh(1.0 * row)), None

        return lax.scan(body, (0, jnp.ones_like(x[0])), x)[0][1]

    for variant in (jax.checkpoint(_folded), counting):
        (proof,) = prove_all_sizes(_folded, variant, ROWS)
        assert proof.verdict == "rounding", proof.reason


def test_other_loops_are_not_proved() -> None:
    for factor in (0.5, -1.0):
        (proof,) = prove_all_sizes(_folded, lambda x, factor=factor: _folded(x, factor=factor), ROWS)
        assert proof.verdict in ("different", "error")


def test_loops_that_start_otherwise_are_not_proved() -> None:
    def from_two(x: Any) -> Any:
        return lax.scan(lambda held, row: (held * jnp.tanh(row), None), 2 * jnp.ones_like(x[0]), x)[0]

    assert prove_all_sizes(_folded, from_two, ROWS)[0].verdict in ("different", "error")


def test_facts_of_an_outer_index_say_nothing_of_an_inner_one() -> None:
    """A sum inside of a sum has indices of its own, even where both are of one name."""

    def summed(x: Any, inner: Any) -> Any:
        return jnp.sum(jnp.where(jnp.arange(x.shape[0]) == 0, jnp.max(inner), 1.0))

    def honest(x: Any) -> Any:
        return summed(x[:, 0], x[:, 0])

    def equal_in_the_first_row_alone(x: Any) -> Any:
        row = x[:, 0]
        return summed(row, jnp.where(jnp.arange(x.shape[0]) == 0, row, 2 * row))

    assert prove_all_sizes(honest, honest, ROWS)[0].verdict == "rounding"
    assert prove_all_sizes(honest, equal_in_the_first_row_alone, ROWS)[0].verdict in ("different", "error")


def _stored(x: Any, *, later: bool = False, shift: int = 0, kept: bool = False) -> Any:
    """What a loop carries before each step, written into a buffer that it carries as well."""

    def step(state: Any, row: Any) -> tuple[Any, None]:
        number, held, buffer = state
        after = jnp.sin(held) + (buffer[0] * row if kept else row)
        return (number + 1, after, buffer.at[number - shift].set(after if later else held)), None

    return lax.scan(step, (0, jnp.ones_like(x[0]), jnp.zeros_like(x)), x)[0][2]


def test_what_is_written_once_may_be_of_another_carry() -> None:
    def stacked(x: Any) -> Any:
        return lax.scan(lambda held, row: (jnp.sin(held) + row, held), jnp.ones_like(x[0]), x)[1]

    (proof,) = prove_all_sizes(stacked, _stored, ROWS)
    assert proof.verdict == "rounding", proof.reason
    for wrong in ({"later": True}, {"shift": 1}, {"kept": True}):
        (proof,) = prove_all_sizes(stacked, lambda x, wrong=wrong: _stored(x, **wrong), ROWS)
        assert proof.verdict == "different", wrong


def test_a_carry_of_the_buffer_itself_is_no_other_one() -> None:
    (proof,) = prove_all_sizes(lambda x: _stored(x, kept=True), lambda x: _stored(x, kept=True, later=True), ROWS)
    assert proof.verdict == "different", proof
    (proof,) = prove_all_sizes(lambda x: _stored(x, kept=True), _stored, ROWS)
    assert proof.verdict == "different", proof
