"""Loops of symbolic length: carries by induction, and equal loops."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax

from samebits.prove.all_sizes import prove_all_sizes
from tests.prove.moved_faults import ROWS, check_honest, check_numbers, check_refuted, named
from tests.prove.size_faults import Honest

HONEST, FAULTS = named("copied in a loop", "by chunks", "counted", "the row before", "the last by a condition")
NAMED = pytest.mark.parametrize("honest", HONEST, ids=[honest.name for honest in HONEST])


@NAMED
def test_what_moves_the_same_is_proved(honest: Honest) -> None:
    check_honest(honest)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("honest", "name"), FAULTS, ids=[f"{honest.name}: {name}" for honest, name in FAULTS])
def test_every_fault_is_refuted_at_sizes(honest: Honest, name: str) -> None:
    check_refuted(honest, name)


@pytest.mark.sampled(2)
@NAMED
@settings(max_examples=3, deadline=None, derandomize=True)
@given(data=st.data())
def test_proofs_hold_at_numbers(honest: Honest, data: Any) -> None:
    check_numbers(
        honest, {name: data.draw(st.integers(low, 5), label=name) for name, low in honest.family.free.items()}
    )


@NAMED
@pytest.mark.slow
@settings(max_examples=500, deadline=None, derandomize=True)
@given(data=st.data())
def test_proofs_hold_at_many_numbers(honest: Honest, data: Any) -> None:
    numbers = {name: data.draw(st.integers(low, 12), label=name) for name, low in honest.family.free.items()}
    check_numbers(honest, numbers)


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
