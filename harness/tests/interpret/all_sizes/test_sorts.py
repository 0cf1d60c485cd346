"""Sorts for all sizes: orders are permutations, and the order of an order is its inverse."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samebits.prove.all_sizes import prove_all_sizes
from tests.prove.moved_faults import check_honest, check_numbers, check_refuted, named
from tests.prove.size_faults import Honest

HONEST, FAULTS = named("sorted along", "sorted and back", "reordered and back")
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


def test_an_unstable_order_is_not_taken_for_a_stable_one() -> None:
    family = HONEST[0].family
    (proof,) = prove_all_sizes(
        lambda x, keys: x[jnp.argsort(keys, stable=True)], lambda x, keys: x[jnp.argsort(keys, stable=False)], family
    )
    assert proof.verdict == "error"
