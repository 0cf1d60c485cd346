"""Two functions, one of which takes its mesh or is bound to one: the mesh of the call reaches it."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, PartitionSpec

import samebits
from samebits.functions.as_pair import split_by_default
from samebits.programs.like import like
from samebits.schema.meshes import MeshSpec
from tests.functions import specimens as f

SPEC = PartitionSpec("dp", "tp")
VALUES = np.arange(32, dtype=np.float32).reshape(4, 8) - 11


def plain(x: Any) -> Any:
    return jnp.sum(x * 3, axis=0)


def summed(x: Any, mesh: Any, factor: float = 3.0) -> Any:
    def local(rows: Any) -> Any:
        return jax.lax.psum(jnp.sum(rows * factor, axis=0), "dp")

    return jax.shard_map(local, mesh=mesh, in_specs=SPEC, out_specs=PartitionSpec("tp"))(x)


def wrong(x: Any, mesh: Any) -> Any:
    return summed(x, mesh, factor=5.0)


def mesh_of(kind: Any = AxisType.Auto) -> Any:
    return jax.make_mesh((2, 4), ("dp", "tp"), axis_types=(kind,) * 2)


@pytest.mark.slow
def test_a_parameter_called_mesh_gets_the_mesh_of_the_call() -> None:
    for mesh in (mesh_of(), mesh_of(AxisType.Explicit), "dp2_tp4"):
        samebits.assert_same(plain, summed, VALUES, mesh=mesh, specs=SPEC, accept="rounding")
        samebits.assert_same(summed, plain, VALUES, mesh=mesh, specs=SPEC, accept="rounding")
        with pytest.raises(AssertionError):
            samebits.assert_same(plain, wrong, VALUES, mesh=mesh, specs=SPEC, accept="rounding")


@pytest.mark.slow
def test_a_mesh_among_the_arguments_is_the_mesh_of_the_call() -> None:
    def first(x: Any, where: Any) -> Any:
        return plain(x)

    def second(x: Any, where: Any) -> Any:
        return summed(x, where)

    def third(x: Any, where: Any) -> Any:
        return wrong(x, where)

    result = samebits.check(first, second, VALUES, mesh_of(), specs=SPEC)
    assert result.verdict in ("proved", "bitwise", "rounding")
    assert {leaf.place.mesh for leaf in result.leaves} == {"dp2_tp4"}
    assert samebits.check(first, third, VALUES, mesh_of(), specs=SPEC).verdict == "different"


def test_a_function_on_its_own_mesh_says_where_it_runs() -> None:
    mesh = mesh_of()

    def bound(x: Any) -> Any:
        return summed(x, mesh)

    result = samebits.check(plain, bound, VALUES, mesh=mesh, specs=SPEC, gradients=False)
    assert result.verdict in ("bitwise", "rounding")
    result = samebits.check(plain, bound, VALUES, gradients=False)
    assert result.verdict == "error"
    assert "run it there: meshes=('dp=2:auto,tp=4:auto',) in a Pair, or mesh='dp=2:auto,tp=4:auto' in a call" in str(
        next(leaf.ruling.reason for leaf in result.leaves if leaf.ruling.verdict == "error")
    )


def test_without_a_mesh_the_default_of_the_parameter_stays() -> None:
    def anywhere(x: Any, w: Any, *, mesh: Any = None) -> Any:
        assert mesh is None
        return x @ w

    assert samebits.check(lambda x, w: x @ w, anywhere, VALUES, np.ones((8, 2), np.float32)).ok


def test_a_reference_without_explicit_form_is_no_error() -> None:
    def plain_matmul(x: Any, w: Any) -> Any:
        return x @ w

    def laid_out(x: Any, w: Any) -> Any:
        return jnp.einsum("bi,io->bo", x, w, out_sharding=PartitionSpec("dp", None))

    specs = (SPEC, PartitionSpec("tp"))
    mesh = mesh_of(AxisType.Explicit)
    layout: dict[str, Any] = {"mesh": mesh, "specs": specs}
    result = samebits.check(plain_matmul, laid_out, VALUES, VALUES.T.copy(), **layout, gradients=False)
    assert {leaf.ruling.verdict for leaf in result.leaves if leaf.place.variant == "plain_matmul"} == {"skipped"}
    assert result.verdict in ("bitwise", "rounding")
    result.raise_for_status()


# --- arguments without a layout are split over the mesh, and the result says how -------------------------------------


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
