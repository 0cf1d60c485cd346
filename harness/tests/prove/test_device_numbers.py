"""Exchanges that ask for the mesh: proved on every number of devices up to a printed one, or refuted on one of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from samebits import MeshSpec, Pair
from samebits.prove.pair_proof import PairProof
from samebits.prove.pair_sizes import PairSizes
from samebits.prove.size_attempts import PairPoint
from samebits.schema.mesh_ids import Mode
from tests.prove.device_faults import (
    EXCHANGES,
    RINGS,
    SUMS,
    WRONG_EXCHANGES,
    WRONG_RINGS,
    WRONG_SUMS,
    exchange_pair,
    ring_pair,
    sum_pair,
)

EVERY = tuple(range(1, 17))
HONEST = [
    *((ring_pair, name, side) for name, side in RINGS.items()),
    *((exchange_pair, name, side) for name, side in EXCHANGES.items()),
    *((sum_pair, name, side) for name, side in SUMS.items()),
]
WRONG = [
    *((ring_pair, name, *wrong) for name, wrong in WRONG_RINGS.items()),
    *((exchange_pair, name, *wrong) for name, wrong in WRONG_EXCHANGES.items()),
    *((sum_pair, name, *wrong) for name, wrong in WRONG_SUMS.items()),
]


def _proof(pair: Pair, mesh: str = "context2", direction: str = "forward", mode: Mode = "auto") -> PairProof:
    (variant,) = pair.variant_names
    point = PairPoint(pair, variant, pair.cases[0], "float32", direction, mode)
    return PairSizes().prove(point, MeshSpec.parse(mesh))


def _numbers(proof: PairProof) -> dict[str, tuple[int, ...]]:
    (leaf,) = proof.leaves
    return {shown.axis: shown.numbers for shown in proof.family(leaf).devices}


@pytest.mark.parametrize(("pair", "name", "side"), HONEST, ids=[name for _, name, _ in HONEST])
def test_an_exchange_is_proved_on_every_number(pair: Callable[[Any], Pair], name: str, side: Any) -> None:
    proof = _proof(pair({name: side}))
    assert [leaf.verdict for leaf in proof.leaves] == ["proved"], proof
    assert _numbers(proof) == {"context": EVERY}
    family = proof.family(proof.leaves[0])
    assert "the devices of context2, and every number of devices up to 16 on axis context" in family.text


@pytest.mark.parametrize(("pair", "name", "number", "side"), WRONG, ids=[name for _, name, *_ in WRONG])
def test_a_fault_on_some_numbers_is_refuted(pair: Callable[[Any], Pair], name: str, number: int, side: Any) -> None:
    proof = _proof(pair({name: side}))
    (leaf,) = proof.leaves
    assert leaf.verdict == "different", leaf
    assert proof.family(leaf).mesh == f"context{number}"
    assert proof.place_of(leaf).startswith(f"on context{number} at ")


def test_an_exchange_is_proved_in_explicit_mode_and_gradients() -> None:
    pair = ring_pair({"ppermute": RINGS["ppermute"]})
    assert _numbers(_proof(pair, direction="gradient")) == {"context": EVERY}
    assert _numbers(_proof(pair, mode="explicit")) == {"context": EVERY}
    wrong = _proof(ring_pair({"wrong": WRONG_RINGS["wrong_at_sixteen"][1]}), direction="gradient", mode="explicit")
    assert [leaf.verdict for leaf in wrong.leaves] == ["different"]


def test_each_axis_of_a_mesh_is_varied_alone() -> None:
    proof = _proof(ring_pair({"ppermute": RINGS["ppermute"]}), "data2_context2")
    assert _numbers(proof) == {"data": EVERY, "context": EVERY}
    text = proof.family(proof.leaves[0]).text
    assert "up to 16 on axis data alone, and every number of devices up to 16 on axis context alone" in text
    wrong = _proof(ring_pair({"wrong": WRONG_RINGS["wrong_at_sixteen"][1]}), "data2_context2")
    assert wrong.family(wrong.leaves[0]).mesh == "data2_context16"
