"""Arguments without a layout are split over the mesh, and the result says how."""

from typing import Any

import jax
import jax.numpy as jnp
import pytest

import samebits
from samebits.functions.as_pair import split_by_default
from samebits.programs.like import like
from samebits.schema.meshes import MeshSpec
from tests.functions import specimens as f


def _specs(mesh: str, *shapes: tuple[int, ...]) -> list[object]:
    args = {f"x{i}": like(jax.ShapeDtypeStruct(shape, jnp.float32)) for i, shape in enumerate(shapes)}
    return [tree.args[0].spec for tree in split_by_default(args, MeshSpec.parse(mesh))[0].values()]


def test_dimensions_take_the_axes_in_their_order() -> None:
    assert _specs("dp2_tp4", (8, 16), (8,), (3, 4), (3, 5), ()) == [("dp", "tp"), ("dp",), (None, "dp"), (), ()]
    assert _specs("dp1_tp4", (8, 16)) == [("tp", None)]
    assert _specs("none", (8, 16)) == [()]


def test_a_layout_that_is_given_stays() -> None:
    args = {"x": like(jnp.ones((8, 4)), specs=jax.sharding.PartitionSpec(None, "tp")), "y": like(jnp.ones(8))}
    split, remark = split_by_default(args, MeshSpec.parse("dp2_tp2"))
    assert [tree.args[0].spec for tree in split.values()] == [(None, "tp"), ()]
    assert remark is None


def test_random_keys_are_not_split() -> None:
    split, _ = split_by_default({"key": like(jax.random.split(jax.random.key(0), 4))}, MeshSpec.parse("dp2"))
    assert split["key"].args[0].spec == ()


@pytest.mark.slow
def test_the_result_says_how_they_lie() -> None:
    compared = samebits.check(f.softmax, f.shifted, jnp.arange(32.0).reshape(8, 4), mesh="dp2_tp4")
    assert compared.ok, compared
    assert compared.notes[0] == "no specs were given; split over dp2_tp4: x ('dp', 'tp')"
    assert compared.leaves[0].run.layout["x"] == "('dp', 'tp')"


def test_a_mean_of_each_device_alone_is_seen() -> None:
    def local(x: Any) -> Any:
        spec = jax.sharding.PartitionSpec("dp")
        return jax.shard_map(lambda x: x - jnp.mean(x), in_specs=spec, out_specs=spec)(x)

    x = jnp.arange(32.0).reshape(8, 4)
    compared = samebits.check(lambda x: x - jnp.mean(x), local, x, mesh="dp2", gradients=False)
    assert {leaf.ruling.verdict for leaf in compared.leaves if leaf.place.variant == "local"} == {"different"}
