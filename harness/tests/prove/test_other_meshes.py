"""A function that is right on a mesh of four alone gets a note, and is different where other meshes are declared."""

from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import PartitionSpec

import samebits
from samebits import Arg, Case, Pair
from tests.support import mesh_sides

X = np.random.default_rng(0).normal(size=(12, 4)).astype(np.float32)
SLOW = pytest.mark.slow
pytestmark = pytest.mark.filterwarnings("ignore::samebits.OtherInputsWarning")


def _named(table: dict[str, Any], fast: int) -> list[Any]:
    return [name if place < fast else pytest.param(name, marks=SLOW) for place, name in enumerate(table)]


def _beyond(compared: Any) -> list[str]:
    taken = [each.counterexample for leaf in compared.leaves for each in leaf.proof.assumptions]
    return [words for words in taken if words is not None and "on mesh" in words]


@pytest.mark.parametrize("name", _named(mesh_sides.ON_FOUR, 2))
def test_what_is_right_on_four_devices_alone_is_said(name: str) -> None:
    compared = samebits.prove(*mesh_sides.ON_FOUR[name], X, mesh="dp4", specs=PartitionSpec("dp"), gradients=False)
    assert not {leaf.ruling.verdict for leaf in compared.leaves} - {"proved", "bitwise", "rounding"}
    assert _beyond(compared)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(mesh_sides.ON_FOUR)[:3])
def test_it_is_said_where_both_run(name: str) -> None:
    with pytest.warns(samebits.OtherInputsWarning, match="on mesh 'dp1'"):
        samebits.assert_same(*mesh_sides.ON_FOUR[name], X, mesh="dp4", specs=PartitionSpec("dp"), gradients=False)


@pytest.mark.parametrize("name", _named(mesh_sides.ON_ANY, 1))
def test_what_is_right_on_any_mesh_is_not(name: str) -> None:
    compared = samebits.prove(*mesh_sides.ON_ANY[name], X, mesh="dp4", specs=PartitionSpec("dp"), gradients=False)
    assert compared.ok
    assert not _beyond(compared)


@pytest.mark.slow
def test_gradients_and_meshes_of_the_functions() -> None:
    mesh = jax.make_mesh((4,), ("dp",))
    four = mesh_sides.divided(lambda x: x * (jax.lax.axis_size("dp") / 4), mesh=mesh)
    compared = samebits.check(lambda x: x * 1.0, four, X, mesh=mesh, specs=PartitionSpec("dp"))
    assert compared.ok
    assert len(_beyond(compared)) >= 2


@pytest.mark.parametrize("meshes", [("dp4",), pytest.param(("dp2", "dp4"), marks=SLOW)])
def test_declared_pairs(meshes: tuple[str, ...]) -> None:
    reference, variant = mesh_sides.ON_FOUR["a quarter"]
    pair = Pair(
        name="quarter",
        reference=reference,
        variants={"four": variant},
        args={"x": Arg(shape=(12, 4), spec=("dp",))},
        cases=(Case(id="small"),),
        dtypes=("float32",),
        meshes=meshes,
        gradients=False,
    )
    proved = samebits.prove(pair)
    assert proved.ok == (meshes == ("dp4",))
    if proved.ok:
        assert _beyond(proved)
