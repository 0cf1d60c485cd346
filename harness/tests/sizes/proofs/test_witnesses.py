"""Sizes that are tried where nothing is shown: which ones, from integers in code too, and which are kept."""

import functools
from collections.abc import Hashable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from samebits.sizes.proofs import tracing
from samebits.sizes.proofs.tracing import OnMesh, TracedFamily, TracedOnce, each_once, traced
from samebits.sizes.proofs.witnesses import NESTED, denied, numbers_in, searched
from tests.sizes.proofs.size_faults import ON_LINE


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


def _unseen(x: jax.Array) -> jax.Array:
    """Wrong at one size, in a way that tracing with symbols does not see."""
    return jnp.zeros_like(x) if type(x.shape[0]) is int and x.shape[0] == 13 else x


def test_what_is_proved_is_tried_at_every_size_or_at_one_in_turn() -> None:
    sides = (lambda x: x, _unseen)
    sizes, differing = denied(sides, ON_LINE, "forward")
    assert (sizes, list(differing)) == ({"n": 13}, ["out"])
    in_turn = [denied(sides, ON_LINE, "forward", turn)[0] for turn in range(16)]
    # Sixteen numbers of devices come to each of the sizes, and each of them to one alone.
    assert {"n": 13} in in_turn and {} in in_turn


def test_programs_are_traced_once_for_each_family() -> None:
    traces: list[object] = []

    def counted(x: jax.Array) -> jax.Array:
        traces.append(x.shape[0])
        return x[::-1]

    (once,) = each_once([counted])
    for _ in range(2):
        for number in (3, 4):
            assert traced(once, ON_LINE.at({"n": number})).closed.in_avals[0].shape == (number,)
    assert traces == [3, 4]
    assert len(traced(once, ON_LINE, "gradient").closed.in_avals) == 2
    longer = replace(ON_LINE, args={name: replace(arg, dtype="bfloat16") for name, arg in ON_LINE.args.items()})
    assert traced(once, longer.at({"n": 3})).closed.in_avals[0].dtype == jnp.bfloat16


def test_few_programs_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing, "MOST_PROGRAMS", 2)
    programs: dict[Hashable, TracedFamily] = {}
    once = TracedOnce(jnp.flip, "flip", programs)
    for number in (1, 2, 3, 4):
        traced(once, ON_LINE.at({"n": number}))
    assert len(programs) == 2


def test_plain_static_arguments_need_no_hash() -> None:
    family = replace(ON_LINE, statics={"axes": [0]})
    sides = (lambda x, axes: jnp.flip(x, axes), lambda x, axes: x[::-1])
    assert denied(sides, family, "forward") == searched(sides, family, "forward") == ({}, {})


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
