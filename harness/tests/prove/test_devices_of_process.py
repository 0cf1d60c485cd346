"""Code that asks for the devices of the process, which are not those of every mesh that is tried."""

from collections.abc import Callable
from typing import Any

import jax
import pytest

from samebits import Arg, Case, MeshSpec, Pair
from samebits.sizes.proofs import witnesses
from samebits.sizes.proofs.attempts import PairPoint
from samebits.sizes.proofs.family_proof import PairProof
from samebits.sizes.proofs.pair_sizes import PairSizes


@pytest.fixture(autouse=True)
def _tried_at_few_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before each size at which a proof is tried, what this code asked is forgotten; which sizes is not tested here."""
    monkeypatch.setattr(witnesses, "MOST_DENIALS", 2)
    monkeypatch.setattr(witnesses, "FEWEST", 1)


def _of_process(side: Callable[[jax.Array], jax.Array], mesh: str) -> PairProof:
    """What is shown of a side that should leave an array as it is."""
    pair = Pair(
        name="kept",
        reference=lambda x: x,
        variants={"side": side},
        args={"x": Arg(shape=("rows",), spec=("ring",))},
        cases=(Case(id="small", sizes={"rows": 8}),),
        dtypes=("float32",),
        meshes=("ring4", "none"),
        gradients=False,
    )
    point = PairPoint(pair, "side", pair.cases[0], "float32", "forward", platform="cpu")
    return PairSizes().prove(point, MeshSpec.parse(mesh))


def _numbers(proof: PairProof) -> dict[str, tuple[int, ...]]:
    (leaf,) = proof.leaves
    return {shown.axis: shown.numbers for shown in proof.family(leaf).devices}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("side", "count"),
    [
        (lambda x: x if jax.device_count() <= 8 else x[::-1], "jax.device_count() is "),
        (lambda x: x if len(jax.devices()) <= 8 else x[::-1], "jax.device_count() is "),
        (lambda x: x if jax.local_device_count() <= 8 else x[::-1], "jax.local_device_count() is "),
        (lambda x: x if jax.process_count() == 1 else x[::-1], "jax.process_count() is 1"),
        (lambda x: x if x.shape[0] < 100 or jax.device_count() <= 8 else x[::-1], "jax.device_count() is "),
    ],
)
def test_the_devices_of_the_process_are_those_of_no_other_mesh(side: Any, count: str) -> None:
    """The answer was the same on each mesh that was tried, and so was the proof."""
    proof = _of_process(side, "ring4")
    (leaf,) = proof.leaves
    assert leaf.verdict == "proved"
    assert _numbers(proof) == {"ring": (4,)}
    text = proof.family(leaf).text
    assert "asks for the devices of the process" in text
    assert count in text
    alone = _of_process(side, "none")
    assert "every number" not in alone.family(alone.leaves[0]).text


def test_code_that_asks_for_the_mesh_is_proved_on_every_number() -> None:
    proof = _of_process(lambda x: x if jax.sharding.get_abstract_mesh().size <= 64 else x[::-1], "ring4")
    assert _numbers(proof) == {"ring": tuple(range(1, 17))}
    text = _of_process(lambda x: x, "none").family(proof.leaves[0]).text
    assert "every number of devices" in text


def test_what_the_process_decides_is_not_refuted_on_a_mesh() -> None:
    there = jax.device_count() + 1
    (leaf,) = _of_process(lambda x: x if jax.device_count() == there else x[::-1], f"ring{there}").leaves
    assert leaf.verdict == "error"
    assert "asks for the devices of the process" in leaf.reason
