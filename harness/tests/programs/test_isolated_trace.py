"""A side that draws from a global random generator while it is traced has no program of its own."""

import contextlib
import random
from collections.abc import Callable

import jax
import numpy as np
import pytest

from samebits.errors import DeclarationError
from samebits.host.interrupts import Stop
from samebits.host.isolation import take_notes
from samebits.programs.program_cache import Programs, trace_alone
from samebits.programs.sides import Site, TracedSides
from samebits.schema.meshes import MeshSpec
from tests.support.toys import toy

_X = (jax.ShapeDtypeStruct((4,), np.float32),)


def _traced(function: Callable[[jax.Array], jax.Array]) -> str:
    return str(trace_alone("pair: 'fast'", contextlib.nullcontext, function, _X).lower().as_text())


@pytest.fixture(autouse=True)
def notes_dropped() -> None:
    take_notes()


@pytest.mark.parametrize(
    ("draw", "called"), [(np.random.standard_normal, "np.random"), (random.random, "random")], ids=["numpy", "python"]
)
def test_a_draw_that_the_program_holds_is_refused(draw: Callable[[], float], called: str) -> None:
    expected = rf"pair: 'fast' draws unseeded random numbers \({called}\) while it is traced"
    with pytest.raises(DeclarationError, match=expected):
        _traced(lambda x: x * np.float32(draw()))


def test_a_captured_array_that_is_drawn_is_refused() -> None:
    with pytest.raises(DeclarationError, match="unseeded"):
        _traced(lambda x: x * jax.numpy.asarray(np.random.rand(4), np.float32))


def test_what_jit_has_traced_inside_is_drawn_again() -> None:
    inner = jax.jit(lambda x: x * np.float32(np.random.rand()))
    with pytest.raises(DeclarationError, match="unseeded"):
        _traced(lambda x: inner(x) + 1)


def test_a_seed_in_the_function_makes_one_program() -> None:
    def seeded(x: jax.Array) -> jax.Array:
        np.random.seed(3)
        return x * np.float32(np.random.rand())

    assert _traced(seeded) == _traced(seeded)


def test_a_draw_that_the_program_does_not_hold_is_accepted() -> None:
    def named(x: jax.Array) -> jax.Array:
        with jax.named_scope(f"part_{random.random()}"):
            return x + 1

    assert "add" in _traced(named)


@pytest.mark.parametrize("error", [ValueError(), SystemExit(0), KeyboardInterrupt()])
def test_what_cannot_be_traced_is_none(error: BaseException) -> None:
    def raising(x: jax.Array, *, factor: float) -> jax.Array:
        raise error

    pair = toy(fast=raising)
    site = Site(case=pair.cases[0], dtype="float32", mesh=MeshSpec.parse("none"), mode="auto", built=None)
    with Stop().listening():
        assert TracedSides(pair, Programs(threads=1)).traced_alone("fast", site) is None
