"""What code asks of sizes while it is traced with symbols: nothing that holds for some sizes alone passes unseen."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from samebits.prove.all_sizes import prove_all_sizes
from samebits.prove.size_comparisons import comparisons
from samebits.prove.size_family import traced
from tests.prove.size_faults import EVEN, ON_LINE


def test_comparisons_are_seen_while_they_are_collected() -> None:
    (seen,) = traced(lambda x: x if x.shape[0] == 6 else -x, EVEN).comparisons
    assert (seen.text, str(seen.difference)) == ("2*h and 6", "2*h - 6")
    (seen,) = traced(lambda x: x if x.shape[0] != 6 else -x, EVEN).comparisons
    assert seen.text == "2*h and 6"
    with comparisons({}) as nothing:
        assert nothing == []


def test_the_truth_of_a_size_is_a_comparison_with_0() -> None:
    (seen,) = traced(lambda x: -x if x.shape[0] % 3 else x, ON_LINE).comparisons
    assert seen.text == "mod(n, 3) and 0"
    assert traced(lambda x: x if x.shape[0] else -x, ON_LINE).comparisons == ()


@jax.jit
def _jitted(x: jax.Array) -> jax.Array:
    return jnp.zeros_like(x) if x.shape[0] == 16 else x


@functools.cache
def _is_wrong(size: Any) -> bool:
    return bool(size == 16)


WRONG: dict[str, Callable[[jax.Array], jax.Array]] = {
    "odd": lambda x: jnp.flip(x) if x.shape[0] % 2 else x,
    "even": lambda x: x if x.shape[0] % 2 else jnp.flip(x),
    "not": lambda x: x if not x.shape[0] % 2 else jnp.flip(x),
    "and": lambda x: jnp.flip(x) if x.shape[0] % 2 and x.ndim == 1 else x,
    "in a tuple": lambda x: jnp.flip(x) if x.shape[0] in (4, 16) else x,
    "in a set": lambda x: jnp.flip(x) if x.shape[0] in {4, 16} else x,
    "within jit": _jitted,
    "behind a cache": lambda x: jnp.flip(x) if _is_wrong(x.shape[0]) else x,
    "a difference": lambda x: jnp.flip(x) if not x.shape[0] - 16 else x,
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_at_some_sizes_is_never_proved(name: str) -> None:
    for _ in range(2):  # jax knows the program the second time
        for proof in prove_all_sizes(lambda x: x, WRONG[name], ON_LINE):
            assert proof.verdict in ("different", "error"), proof
