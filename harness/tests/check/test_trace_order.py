"""Sides that share state are rejected: the verdict on one would be one on the other."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import numpy as np
import pytest

import samebits
from samebits import Arg, Case, Pair, Request
from samebits.errors import DeclarationError
from samebits.programs.sides import TracedSides
from tests.support import sharing_sides
from tests.support.invoke import samebits as samebits_command

X = np.random.default_rng(0).normal(size=(8, 8)).astype(np.float32)
STATE: dict[str, float] = {}
SETTINGS = {"scale": 2.0}
TABLE = np.arange(4, dtype=np.float32) + 1


@jax.jit
def layer(x: jax.Array) -> Any:
    return x * SETTINGS["scale"]


def plain(x: jax.Array) -> Any:
    return layer(x)


def sets_a_global(x: jax.Array) -> Any:
    SETTINGS["scale"] = 3.0
    try:
        return layer(x)
    finally:
        SETTINGS["scale"] = 2.0


def stores(x: jax.Array) -> jax.Array:
    STATE["scale"] = 2.0
    return x * 2.0


def reads_what_is_stored(x: jax.Array) -> jax.Array:
    return x * STATE.get("scale", 1.0)


def changes_in_place(x: jax.Array) -> jax.Array:
    TABLE[0] += 1
    return x * TABLE


def honest(x: jax.Array) -> jax.Array:
    return x + x


def _pair(reference: Callable[..., Any], variant: Callable[..., Any]) -> Pair:
    return Pair(
        name="shared",
        reference=reference,
        variants={"variant": variant},
        args={"x": Arg(shape=(4,))},
        cases=(Case(id="small"),),
        dtypes=("float32",),
    )


@pytest.mark.parametrize(
    ("reference", "variant", "message"),
    [
        (plain, sets_a_global, "'variant' traces to a different program when it is traced before the other sides"),
        (
            lambda x: x * TABLE,
            changes_in_place,
            "'variant' uses the array TABLE, which is changed in place while a side is traced",
        ),
    ],
)
def test_shared_state_is_rejected(reference: Callable[..., Any], variant: Callable[..., Any], message: str) -> None:
    STATE.clear()
    with pytest.raises(DeclarationError, match=message):
        samebits.check(_pair(reference, variant))


def test_what_the_reference_stores_is_not_there() -> None:
    """A side that reads it computes what it computes by itself, and a note says so."""
    STATE.clear()
    ended = samebits_command("compare", f"{__file__}:stores", f"{__file__}:reads_what_is_stored", "--arg", "x=f32[4]")
    assert ended.code == 1
    assert "'reads_what_is_stored' would compute something else after the other sides" in ended.out
    assert not STATE


SLOW = pytest.mark.slow


@pytest.mark.parametrize("door", [samebits.prove, samebits.check])
@pytest.mark.parametrize("first", [None, pytest.param(0, marks=SLOW), pytest.param(1, marks=SLOW)])
@pytest.mark.parametrize(
    "name", ["dict_without_window", *(pytest.param(name, marks=SLOW) for name in list(sharing_sides.UNEQUAL)[1:])]
)
def test_no_side_decides_another(name: str, first: int | None, door: Callable[..., Any]) -> None:
    """Whichever is the reference, and where the caller has called one of them before."""
    for swapped in (False, True) if first is None else (False,):
        sides = sharing_sides.UNEQUAL[name]()
        if first is not None and name not in sharing_sides.GIVEN:
            sides[first](X)
        assert door(*(sides[::-1] if swapped else sides), X, name=name).verdict == "different"


@pytest.mark.parametrize("door", [samebits.prove, samebits.check])
@pytest.mark.parametrize("name", ["counter", *(pytest.param(name, marks=SLOW) for name in sharing_sides.EQUAL)])
def test_state_that_decides_nothing_is_shared(name: str, door: Callable[..., Any]) -> None:
    compared = door(*sharing_sides.EQUAL[name](), X, name=name)
    assert compared.ok
    assert not compared.notes


@pytest.mark.parametrize(
    "named", [pytest.param("dict_without_window", marks=SLOW), pytest.param("static_arguments", marks=SLOW)]
)
def test_declared_pairs_on_a_mesh(named: str) -> None:
    reference, variant = sharing_sides.UNEQUAL[named]()
    pair = replace(
        _pair(reference, variant),
        args={"x" if named == "static_arguments" else "scores": Arg(shape=(8, 8), spec=("dp",))},
        meshes=("dp2",),
    )
    assert not samebits.check(pair).ok
    assert not samebits.prove(pair).ok


def test_each_side_is_traced_alone_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not at every point."""
    alone = []
    traced = TracedSides.traced_alone

    def counted(sides: Any, side: str, site: Any) -> Any:
        alone.append(side)
        return traced(sides, side, site)

    monkeypatch.setattr(TracedSides, "traced_alone", counted)
    assert samebits.check(_pair(plain, honest), Request()).ok
    assert sorted(alone) == ["plain", "plain", "variant"], "the reference is traced once more before the variant"
