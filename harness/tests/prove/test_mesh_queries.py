"""Code that asks for the mesh is seen, also where caches answer it; code that does not is not suspected."""

import cProfile
import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import pytest

from samebits.prove.mesh_queries import mesh_queries
from samebits.schema.meshes import MeshSpec
from samebits.sizes.proofs.tracing import traced
from tests.sizes.proofs.size_faults import ON_LINE

pytestmark = pytest.mark.usefixtures("whole_heap")
MESH = MeshSpec.parse("ring4").abstract("auto")


@functools.cache
def _devices() -> int:
    return int(jax.sharding.get_abstract_mesh().size)


@jax.jit
def _jitted(x: jax.Array) -> jax.Array:
    return x if jax.sharding.get_abstract_mesh().empty else -x


def _carried(x: jax.Array, _: None) -> tuple[jax.Array, None]:
    return _jitted(x), None


ASKING: dict[str, Callable[[jax.Array], jax.Array]] = {
    "mesh": lambda x: x if jax.sharding.get_abstract_mesh().empty else -x,
    "jit": _jitted,
    "functools.cache": lambda x: x * _devices(),
    "scan": lambda x: jax.lax.scan(_carried, x, None, length=3)[0],
    "cached property": lambda x: x * MESH.shape["ring"],
    "size of a mesh": lambda x: x * MESH.size,
    "axes of a type's mesh": lambda x: x * len(jax.typeof(x).sharding.mesh.axis_sizes),
    "mesh of a type": lambda x: x if jax.typeof(x).sharding.mesh.empty else -x,
    "devices": lambda x: x * len(jax.devices()),
    "device count": lambda x: x * jax.device_count(),
    "processes": lambda x: x * jax.process_count(),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ASKING)
def test_code_that_asks_is_seen_every_time(name: str) -> None:
    for _ in range(2):
        with mesh_queries() as places:
            traced(ASKING[name], ON_LINE)
        assert places
        assert all("test_mesh_queries.py:" in query.place for query in places)


def test_code_that_does_not_ask_is_not_suspected() -> None:
    with mesh_queries() as places:
        traced(lambda x: jnp.flip(jnp.where(x > 0, x, 1.0)) * 2, ON_LINE)
        traced(lambda x: jax.sharding.auto_axes(jnp.flip, out_sharding=jax.typeof(x).sharding)(x), ON_LINE)
    assert not places


def test_meshes_are_as_before_afterwards() -> None:
    before = dict(vars(jax.sharding.AbstractMesh)), dict(vars(jax.sharding.Mesh))
    with pytest.raises(ZeroDivisionError), mesh_queries():
        raise ZeroDivisionError
    assert (dict(vars(jax.sharding.AbstractMesh)), dict(vars(jax.sharding.Mesh))) == before
    assert MESH.axis_sizes == (4,)


def test_a_profiler_goes_on_where_it_was() -> None:
    """`cProfile` is no function that Python takes back: proofs under it ended with a TypeError."""
    profiler = cProfile.Profile()
    with profiler:
        with mesh_queries() as places:
            traced(ASKING["devices"], ON_LINE)
        math.hypot(3, 4)
    assert places
    assert any("hypot" in str(entry.code) for entry in profiler.getstats())
