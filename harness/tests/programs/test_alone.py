"""Where a side runs alone: without a mesh, or under one of one device with the axes of the point."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import jax
import pytest
from jax.sharding import AbstractMesh, PartitionSpec

from samebits.programs.program_cache import Programs
from samebits.programs.sides import Site, TracedSides, baseline, on_own_mesh, own_mesh, site_alone, sites_alone
from samebits.schema.case import Case, ContextMesh
from samebits.schema.meshes import MeshSpec, Mode
from samebits.schema.pair import Pair
from tests.support.toys import toy

MESHES = ("none", "tensor2_data4", "data=2:explicit,tensor=2")


@pytest.fixture
def programs() -> Iterator[Programs]:
    """Closed after the test."""
    made = Programs(threads=1)
    yield made
    made.close()


def site(pair: Pair, mesh: str, mode: Mode = "auto") -> Site:
    spec = MeshSpec.parse(mesh)
    return Site(case=pair.cases[0], dtype="float32", mesh=spec, mode=mode, built=spec.abstract(mode))


def ids(sites: Iterator[Site]) -> list[str | None]:
    """The meshes of sites, with the types of their axes."""
    return [None if at.built is None else MeshSpec.of(at.built).id for at in sites]


@pytest.mark.parametrize(
    ("mesh", "mode", "expected"),
    [
        ("tensor2_data4", "auto", [None, "tensor=1:auto,data=1:auto"]),
        ("tensor2_data4", "explicit", [None, "tensor=1:explicit,data=1:explicit", "tensor=1:auto,data=1:auto"]),
        ("data=2:explicit,tensor=2", "auto", [None, "data=1:explicit,tensor=1:auto", "data=1:auto,tensor=1:auto"]),
        ("none", "auto", [None, "data=1:auto,tensor=1:auto"]),
    ],
)
def test_a_side_is_tried_without_a_mesh_first(programs: Programs, mesh: str, mode: Mode, expected: Any) -> None:
    pair = dataclasses.replace(toy(), meshes=MESHES)
    assert ids(sites_alone(TracedSides(pair, programs), site(pair, mesh, mode))) == expected
    case = Case(id="small", sizes=pair.cases[0].sizes, statics={"factor": 4.0, "mesh": ContextMesh()})
    with_mesh = dataclasses.replace(pair, cases=(case,))
    assert ids(sites_alone(TracedSides(with_mesh, programs), site(with_mesh, mesh, mode))) == expected[1:]


def test_a_pair_without_axes_has_no_small_mesh(programs: Programs) -> None:
    pair = dataclasses.replace(toy(), meshes=("none",))
    assert ids(sites_alone(TracedSides(pair, programs), site(pair, "none"))) == [None]


def constrained(x: jax.Array, factor: float) -> Any:
    return jax.lax.with_sharding_constraint(x * factor, PartitionSpec("data"))


def test_only_a_side_that_needs_it_gets_a_mesh(programs: Programs) -> None:
    pair = dataclasses.replace(toy(constrained), meshes=MESHES)
    sides, at = TracedSides(pair, programs), site(pair, "tensor2_data4")
    assert site_alone(sides, "twice", at).built is None
    small = site_alone(sides, "constrained", at)
    assert ids(iter([small])) == ["tensor=1:auto,data=1:auto"]
    assert (small.alone, small.on_mesh, small.mesh) == (True, False, at.mesh)
    assert baseline(sides, at) == (small, None)


def test_no_side_of_a_plain_pair_has_a_mesh_of_its_own(programs: Programs) -> None:
    pair = dataclasses.replace(toy(constrained), meshes=MESHES)
    sides = TracedSides(pair, programs)
    for mesh in MESHES:
        at = site(pair, mesh)
        for side in pair.sides:
            assert own_mesh(sides, side, at) is None
            assert on_own_mesh(sides, side, at) is at
    assert isinstance(site(pair, MESHES[1]).built, AbstractMesh)
