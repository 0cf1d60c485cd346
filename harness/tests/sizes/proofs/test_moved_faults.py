"""Sorts, scatters, loops and conditionals for all sizes: the same moves are proved, every fault is refuted."""

import functools
from typing import Any

import jax.numpy as jnp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samebits.sizes.proofs.family import Family, Shaped, SizeOf
from samebits.sizes.proofs.family_proof import prove_all_sizes
from tests.sizes.proofs.moved_faults import MOVED, check_honest, check_numbers, check_refuted
from tests.sizes.proofs.size_faults import Honest

FAULTS = [(honest, wrong) for honest in MOVED for wrong in honest.wrong]
EVERY = pytest.mark.parametrize("honest", MOVED, ids=[honest.name for honest in MOVED])


@pytest.mark.sampled(3)
@EVERY
def test_what_moves_the_same_is_proved(honest: Honest) -> None:
    check_honest(honest)


@pytest.mark.sampled(9)
@pytest.mark.parametrize(("honest", "name"), FAULTS, ids=[f"{honest.name}: {name}" for honest, name in FAULTS])
def test_every_fault_is_refuted_at_sizes(honest: Honest, name: str) -> None:
    check_refuted(honest, name)


@pytest.mark.sampled(2)
@EVERY
@settings(max_examples=3, deadline=None, derandomize=True)
@given(data=st.data())
def test_proofs_hold_at_numbers(honest: Honest, data: Any) -> None:
    check_numbers(honest, _drawn(honest, data, 5))


@EVERY
@pytest.mark.slow
@settings(max_examples=500, deadline=None, derandomize=True)
@given(data=st.data())
def test_proofs_hold_at_many_numbers(honest: Honest, data: Any) -> None:
    check_numbers(honest, _drawn(honest, data, 12))


def _drawn(honest: Honest, data: Any, most: int) -> dict[str, int]:
    """A number for each symbol."""
    return {name: data.draw(st.integers(low, most), label=name) for name, low in honest.family.free.items()}


def _chosen(ids: Any, experts: Any) -> Any:
    return (ids[:, None] == jnp.arange(experts)).sum(0)


def _counted(ids: Any, experts: Any, *, most: int = 0) -> Any:
    return jnp.zeros(experts, jnp.int32).at[jnp.minimum(ids, experts - 1 - most)].add(1)


def _family(below: str | None) -> Family:
    args = {"ids": Shaped(("n",), "int32", below)}
    return Family(symbols={"n": 1, "e": 2}, args=args, statics={"experts": SizeOf("e")})


def test_a_declared_bound_is_taken_as_given() -> None:
    (proof,) = prove_all_sizes(_chosen, _counted, _family("e"))
    assert proof.verdict == "proved", proof
    assert "every element of ids is in [0, e)" in proof.conditions
    (proof,) = prove_all_sizes(_chosen, _counted, _family(None))
    assert proof.verdict != "proved"  # an id beyond the experts is counted by one side alone
    (proof,) = prove_all_sizes(_chosen, _counted, _family("e + 1"))
    assert proof.verdict != "proved"


def test_a_fault_within_a_bound_is_refuted() -> None:
    wrong = functools.partial(_counted, most=1)
    (proof,) = prove_all_sizes(_chosen, wrong, _family("e"))
    assert proof.verdict == "different", proof
    (proof,) = prove_all_sizes(_chosen, wrong, _family("e - 1"))
    assert proof.verdict == "proved", proof
