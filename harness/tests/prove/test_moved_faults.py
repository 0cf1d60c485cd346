"""Sorts, scatters, loops and conditionals for all sizes: the same moves are proved, every fault is refuted."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.prove.moved_faults import MOVED, check_honest, check_numbers, check_refuted
from tests.prove.size_faults import Honest

FAULTS = [(honest, wrong) for honest in MOVED for wrong in honest.wrong]
EVERY = pytest.mark.parametrize("honest", MOVED, ids=[honest.name for honest in MOVED])


@EVERY
def test_what_moves_the_same_is_proved(honest: Honest) -> None:
    check_honest(honest)


@pytest.mark.sampled(9)
@pytest.mark.parametrize(("honest", "name"), FAULTS, ids=[f"{honest.name}: {name}" for honest, name in FAULTS])
def test_every_fault_is_refuted_at_sizes(honest: Honest, name: str) -> None:
    check_refuted(honest, name)


@pytest.mark.sampled(4)
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
