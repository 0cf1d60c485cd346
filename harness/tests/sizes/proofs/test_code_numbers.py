"""Integers in the code of functions, of what they call, and of their rules for gradients."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from samebits.sizes.proofs.tracing import OnMesh
from samebits.sizes.proofs.witnesses import NESTED, numbers_in


def _cut(x: Any, at: int) -> Any:
    return x[:at] if x.shape[0] > 77 else x


def _inner(x: Any) -> Any:
    return _cut(x, 1234)


def _backward(cotangent: Any) -> Any:
    return cotangent if len(cotangent) == 4321 else 2 * cotangent


def _with_own_gradient() -> Any:
    @jax.custom_vjp
    def outer(x: Any) -> Any:
        return _inner(x)

    outer.defvjp(lambda x: (outer(x), None), lambda _, cotangent: (_backward(cotangent),))
    return outer


FORMS: dict[str, Any] = {
    "a function": _inner,
    "a part of one": functools.partial(_inner),
    "one that it calls": lambda x: _inner(x),
    "a compiled one": jax.jit(_inner),
    "one on a mesh": OnMesh(_inner, None),
    "one with its own gradient": _with_own_gradient(),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_numbers_are_those_of_the_code_and_of_what_it_calls(form: Any) -> None:
    assert {77, 1234} <= numbers_in(form)


def test_the_rules_of_a_gradient_are_code_too() -> None:
    own = _with_own_gradient()
    assert 4321 in numbers_in(own)
    assert 4321 in numbers_in(lambda x: own(x))
    assert 4321 not in numbers_in(_inner)


def test_libraries_have_no_numbers() -> None:
    assert 77 not in numbers_in(lambda x: jnp.flip(x))
    assert numbers_in(jnp.flip) == set()


def test_it_ends_where_functions_name_each_other() -> None:
    def first(x: Any) -> Any:
        return second(x) if x else 11

    def second(x: Any) -> Any:
        return first(x) if x else 22

    assert {11, 22} <= numbers_in(first)


@pytest.mark.parametrize(("levels", "is_seen"), [(NESTED - 1, True), (NESTED, False)])
def test_it_looks_as_deep_as_it_says(levels: int, is_seen: bool) -> None:
    def within(inner: Any) -> Any:
        return lambda x: inner(x)

    nested: Any = lambda x: x + 99  # noqa: E731
    for _ in range(levels):
        nested = within(nested)
    assert (99 in numbers_in(nested)) is is_seen
