"""Sides that share state are rejected: the verdict on one would be one on the other."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import samebits
from samebits import Arg, Case, Pair, Request
from samebits.errors import DeclarationError
from samebits.programs.sides import TracedSides
from tests.support.invoke import samebits as samebits_command

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


def captures(x: jax.Array) -> jax.Array:
    return x * TABLE


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
            captures,
            changes_in_place,
            "'variant' uses the array TABLE, which is changed in place while a side is traced",
        ),
    ],
)
def test_shared_state_is_rejected(reference: Callable[..., Any], variant: Callable[..., Any], message: str) -> None:
    STATE.clear()
    with pytest.raises(DeclarationError, match=message):
        samebits.check(_pair(reference, variant))


def test_what_the_reference_stores_is_not_there_yet() -> None:
    """In a comparison of two functions, where nothing has traced the reference before."""
    STATE.clear()
    ended = samebits_command("compare", f"{__file__}:stores", f"{__file__}:reads_what_is_stored", "--arg", "x=f32[4]")
    assert (ended.code, len(ended.lines)) == (2, 1)
    assert "'reads_what_is_stored' traces to a different program when it is traced before the other" in ended.lines[0]


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
