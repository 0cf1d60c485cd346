"""Places of outputs have names of their own, whatever sizes are called."""

from typing import Any

import jax.numpy as jnp
import pytest

from samebits.sizes.proofs import family_proof
from samebits.sizes.proofs.family import Family, Shaped, SizeOf
from samebits.sizes.proofs.family_proof import prove_all_sizes

NAMES = tuple("ijklmnop")
"""What the indices of the first axes are called, too."""


def at_size(x: Any, size: Any) -> Any:
    """The last axis where its place is a size, and 0 elsewhere."""
    return jnp.where(jnp.arange(x.shape[-1]) == size, x, 0)


@pytest.mark.parametrize("axes", [1, 3, 8], ids="of {} axes".format)
def test_an_index_is_no_size_of_the_same_name(axes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(family_proof, "denied", lambda *_, **__: ({}, {}))  # concrete sizes would catch a wrong proof
    name = NAMES[axes - 1]
    shape = (*["2"] * (axes - 1), "d")
    family = Family(symbols={name: 1, "d": 1}, args={"x": Shaped(shape)}, statics={"size": SizeOf(name)})
    (proof,) = prove_all_sizes(lambda x, size: x, at_size, family)
    assert proof.verdict == "different" and set(proof.sizes) == {name, "d"}
    (proof,) = prove_all_sizes(at_size, lambda x, size: at_size(x, size), family)
    assert proof.verdict == "proved", proof.reason


@pytest.mark.parametrize("name", NAMES)
def test_an_axis_may_have_a_size_of_the_name_of_its_index(name: str) -> None:
    shape = tuple(f"2*{each}" if each == name else each for each in NAMES[: NAMES.index(name) + 1])
    family = Family(symbols=dict.fromkeys(NAMES[: NAMES.index(name) + 1], 1), args={"x": Shaped(shape)})
    (proof,) = prove_all_sizes(lambda x: x, lambda x: jnp.flip(jnp.flip(x)), family)
    assert proof.verdict == "proved", proof.reason
    (proof,) = prove_all_sizes(lambda x: x, lambda x: jnp.roll(x, 1, -1), family)
    assert proof.verdict == "different", proof.reason
