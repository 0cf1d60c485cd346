"""Sizes that are tried where nothing is shown: which ones, and which are kept."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp

from samebits.prove.size_witnesses import numbers_in, searched
from tests.prove.size_faults import ON_LINE


def _cut(x: jax.Array, at: int) -> jax.Array:
    return x[:at] if x.shape[0] > 77 else x


def test_numbers_are_those_of_the_code_and_of_what_it_calls() -> None:
    def inner(x: jax.Array) -> jax.Array:
        return _cut(x, 1234)

    for form in (inner, functools.partial(inner), lambda x: inner(x), jax.jit(inner)):
        assert {77, 1234} <= numbers_in(form)
    assert 77 not in numbers_in(lambda x: jnp.flip(x))
    assert numbers_in(jnp.flip) == set()  # of a library, no number is looked at


def test_sizes_that_devices_divide_are_preferred() -> None:
    wrong: Any = jnp.zeros_like
    sizes, differing = searched((lambda x: x, wrong), ON_LINE, "forward")
    assert (sizes, list(differing)) == ({"n": 1}, ["out"])
    divided = replace(ON_LINE, divided=(("n", "4"),))
    sizes, differing = searched((lambda x: x, wrong), divided, "forward")
    assert (sizes, list(differing)) == ({"n": 4}, ["out"])


def test_a_size_at_which_nothing_divides_is_kept() -> None:
    at_seven: Any = lambda x: jnp.zeros_like(x) if x.shape[0] == 7 else x  # noqa: E731
    sizes, _ = searched((lambda x: x, at_seven), replace(ON_LINE, divided=(("n", "4"),)), "forward")
    assert sizes == {"n": 7}


def test_equal_functions_have_no_such_sizes() -> None:
    assert searched((lambda x: x, lambda x: x[:]), ON_LINE, "forward") == ({}, {})
