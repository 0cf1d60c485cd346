"""Arrays cut into shards and joined, as jax lays them out; names of programs."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from samebits.compile import executed
from samebits.errors import CouldNotRun, RequestError
from samebits.hlo.partition_axes import PartitionAxes
from samebits.programs.catalogue import Locator, load
from samebits.programs.replay import replay
from samebits.schema.point import Point
from tests.project.import_graph import ROOT


@pytest.mark.parametrize(
    ("spec", "replicas"), [(P("a"), 4), (P("b", "a"), 1), (P(None, ("a", "b")), 1), (P(("b", "a")), 1), (P(), 8)]
)
def test_shards_are_those_of_jax(spec: Any, replicas: int) -> None:
    mesh = jax.make_mesh((2, 4), ("a", "b"))
    array = np.arange(16 * 8).reshape(16, 8)
    devices = list(mesh.devices.flat)
    shards = executed.Shards.of(NamedSharding(mesh, spec), array.shape, devices)
    placed = {shard.device: shard.data for shard in jax.device_put(array, NamedSharding(mesh, spec)).addressable_shards}
    axes = PartitionAxes(mesh.devices.shape)
    varying = axes.varying(np.array(shards.shard))
    cut = np.asarray(shards.cut(jnp.asarray(array), axes))
    parts = np.asarray(axes.mapped(lambda part: part, [varying])(cut))
    for part, device in zip(parts, devices, strict=True):
        np.testing.assert_array_equal(part, placed[device])
    joined = np.asarray(shards.joined(jnp.asarray(parts)))
    assert shards.replicas == replicas and joined.shape == (replicas, 16, 8)
    assert (joined == array).all()


def test_a_module_before_the_partitioner_is_rejected() -> None:
    """Its parameters are whole arrays, where a partition has a part of them."""
    mesh = jax.make_mesh((8,), ("d",))
    split = NamedSharding(mesh, P("d"))
    types = jax.ShapeDtypeStruct((16,), jnp.float32, sharding=split)
    traced = jax.jit(jnp.sin).trace(types)
    program = executed.RunnableProgram.of(traced.lower().compile(), traced, (0,), mesh)
    assert program(jnp.arange(16.0))[0].shape == (1, 16)
    whole = jax.jit(jnp.sin).trace(jax.ShapeDtypeStruct((16,), jnp.float32))
    early = executed.RunnableProgram.of(
        whole.lower().compile(), whole, (0,), jax.make_mesh((1,), ("one",), devices=jax.devices()[:1])
    ).module
    wrong = executed.RunnableProgram(
        module=early, mesh=(8,), taken=(0,), inputs=program.inputs, outputs=program.outputs
    )
    with pytest.raises(CouldNotRun, match=r"parameter 0 of the module is \(16,\); its shards are \(2,\)"):
        wrong(jnp.arange(16.0))


def test_a_pair_of_a_target_has_a_case_for_each_program() -> None:
    locator = Locator(name="sequence_reorder", root=str(ROOT), target="cpu:8")
    pair = load(locator)
    cases = [case.id for case in pair.cases]
    assert "gather_tokens_undo_float32_context8_auto_forward" in cases
    assert "permute_tokens_undo_float32_context8_auto_gradient" in cases
    assert not [case for case in cases if "int32" in case and case.endswith("_gradient")], "integers have none"
    assert pair.variant_names == ("cpu_8",) and not pair.gradients
    with pytest.raises(RequestError, match="has no mesh of the 5 devices of target 'cpu:5'"):
        executed.compiled_pair(load(Locator(name="sequence_reorder", root=str(ROOT))), "cpu:5")


def test_a_replay_names_the_program() -> None:
    locator = Locator(name="sequence_reorder", target="cpu:8")
    point = Point(variant="cpu_8", case="p", dtype="float32", mesh="none", mode="auto", direction="forward")
    assert replay(locator, point) == "samebits compile sequence_reorder --run --target cpu:8 --case p"
    assert replay(locator, point, "prove") == "samebits prove sequence_reorder --compiled --target cpu:8 --case p"
