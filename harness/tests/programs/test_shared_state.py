"""State that several functions reach is as it was after each trace, and a cache is empty at its start."""

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import AbstractMesh, PartitionSpec

import samebits
from samebits.programs.program_cache import Programs
from samebits.programs.shared_state import SharedState
from samebits.programs.sides import Site, TracedSides, baseline, on_own_mesh, own_mesh, site_alone, sites_alone
from samebits.schema.case import Case, ContextMesh
from samebits.schema.meshes import MeshSpec, Mode
from samebits.schema.pair import Pair
from tests.support import sharing_sides
from tests.support.toys import toy

X = np.random.default_rng(0).normal(size=(8, 8)).astype(np.float32)


def test_what_a_trace_changes_is_put_back() -> None:
    kept: dict[str, Any] = {"a": [1], "b": {2}}
    cached = functools.lru_cache(lambda key: key)

    def side(key: str) -> Any:
        kept["a"].append(cached(key))
        kept["b"].add(3)
        kept[key] = 4

    cached("given")
    state = SharedState([side, lambda key: side(key)])
    with state.put_back():
        side("c")
        assert kept == {"a": [1, "c"], "b": {2, 3}, "c": 4}
    assert kept == {"a": [1], "b": {2}}
    assert cached.cache_info().currsize == 1, "the caller's is another one"
    assert {"kept", "cached"} <= set(state.changed)


def test_modules_in_common_are_nothing_shared() -> None:
    def doubled(x: jax.Array) -> Any:
        return jax.numpy.add(x, x)

    def side(function: Callable[..., Any]) -> Any:
        return lambda x: function(x)

    assert not SharedState([doubled, lambda x: jax.numpy.multiply(x, 2)]).is_shared
    assert SharedState([side(doubled), side(doubled)]).is_shared
    assert SharedState(sharing_sides.flag_of_module()).is_shared


def test_a_cache_that_is_filled_starts_empty() -> None:
    known, table = {1: 1}, {"scale": 2}

    def side(number: int) -> Any:
        known.setdefault(1, number)
        table["latest"] = number
        return known[1] * table["scale"]

    def traced() -> Any:
        try:
            return side(3)
        except KeyError:
            return None

    state = SharedState([side, lambda number: side(number)])
    state.drop_what_is_cached([traced])
    with state.put_back():
        assert side(3) == 6
    assert side(3) == 2


def test_state_is_as_it_was() -> None:
    """What the caller's own calls have stored is there afterwards, in the objects that held it."""
    masks: dict[int, Any] = {}
    known = functools.cache(lambda n: np.arange(n))

    def side(x: jax.Array) -> Any:
        masks.setdefault(x.shape[0], 1)
        return x * known(x.shape[0])

    jax.eval_shape(side, X)
    before = known(8)
    samebits.assert_same(side, lambda x: side(x), X)
    assert masks == {8: 1}
    assert known(8) is before


# Where a side runs alone: without a mesh, or under one of one device with the axes of the point.
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
