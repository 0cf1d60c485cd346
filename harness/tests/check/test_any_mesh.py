"""Meshes of any axes, with types of their own, and no mesh: what holds is green, and what differs there is found."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import PartitionSpec

from samebits.programs.placement import check_mesh_used
from samebits.schema.case import Arg, AxisSize, Case
from samebits.schema.finding import Finding
from samebits.schema.meshes import MODES, MeshSpec
from samebits.schema.pair import Pair
from tests.support.toys import run

Array = jax.Array
OWN = ("none", "dp2_tp4", "tp4_dp2", "fsdp_transpose=2,dp=2", "dp=2:explicit,tp=2:auto", "dp=2:explicit,tp=2")


def scaled(x: Array, w: Array) -> Array:
    return jnp.tanh(x) * w


def honest(x: Array, w: Array) -> Array:
    return w * jnp.tanh(x)


def pair(**sides: Any) -> Pair:
    """A product over `x[8, 8]`, split over axes that nobody else names so."""
    return Pair(
        name="scale",
        reference=scaled,
        variants=sides or {"honest": honest},
        args={"x": Arg(shape=(8, 8), spec=(("dp", "fsdp_transpose"), "tp")), "w": Arg(shape=(8,), spec=("tp",))},
        cases=(Case(id="small"),),
        dtypes=("float32",),
        meshes=OWN,
        modes=MODES,
    )


def failing(results: list[Finding]) -> set[tuple[str, str]]:
    """The meshes and modes of the results that do not hold."""
    return {(result.place.mesh, result.place.mode) for result in results if not result.ruling.ok}


@pytest.mark.slow
def test_an_honest_pair_holds_on_any_mesh() -> None:
    results = run(pair())
    assert {result.place.mesh for result in results} == set(OWN)
    assert {result.place.mode for result in results if result.place.mesh == "none"} == {"auto"}
    assert failing(results) == set()
    assert {result.ruling.verdict for result in results} <= {"proved", "bitwise", "rounding"}
    assert {result.place.direction for result in results if result.place.mesh == "dp=2:explicit,tp=2:auto"} == {
        "forward",
        "gradient",
    }


def wrong_where(condition: Any) -> Any:
    """A variant that is wrong only where the mesh that it is traced for says so."""

    def variant(x: Array, w: Array) -> Array:
        wrong = condition(jax.sharding.get_abstract_mesh())
        return scaled(x, w) * (2.0 if wrong else 1.0)

    return variant


def _explicit_dp(mesh: Any) -> bool:
    kinds = dict(zip(mesh.axis_names, mesh.axis_types, strict=True))
    return kinds.get("dp") == jax.sharding.AxisType.Explicit


PLANTED = {
    "axis order": (lambda mesh: mesh.axis_names == ("tp", "dp"), {("tp4_dp2", "auto"), ("tp4_dp2", "explicit")}),
    "no mesh": (lambda mesh: mesh.empty, {("none", "auto")}),
    "explicit axis": (
        _explicit_dp,
        {*((mesh, "explicit") for mesh in OWN if mesh != "none"), ("dp=2:explicit,tp=2", "auto")},
    ),
    "mixed types": (
        lambda mesh: len(set(mesh.axis_types)) == 2,
        {("dp=2:explicit,tp=2:auto", "explicit"), ("dp=2:explicit,tp=2", "auto")},
    ),
    "own name": (
        lambda mesh: "fsdp_transpose" in mesh.axis_names,
        {("fsdp_transpose=2,dp=2", "auto"), ("fsdp_transpose=2,dp=2", "explicit")},
    ),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", PLANTED)
def test_what_is_wrong_on_one_kind_of_mesh_differs_there(name: str) -> None:
    condition, wrong = PLANTED[name]
    results = run(pair(planted=wrong_where(condition)), gradients=False)
    assert failing(results) == wrong
    assert {result.ruling.verdict for result in results if not result.ruling.ok} == {"different"}
    assert {result.place.variant for result in results if not result.ruling.ok} == {"planted"}


@pytest.mark.slow
def test_the_size_of_any_axis_can_be_an_argument() -> None:
    def plain(x: Array, parts: int) -> Array:
        return x * parts

    def other(x: Array, parts: int) -> Array:
        return x * (parts if parts < 4 else 5)

    case = Case(id="small", statics={"parts": AxisSize(axis="fsdp_transpose")})
    sized = dataclasses.replace(
        pair(),
        reference=plain,
        variants={"other": other},
        args={"x": Arg(shape=(8,), spec=("fsdp_transpose",))},
        cases=(case,),
        meshes=("none", "fsdp_transpose=2", "fsdp_transpose=4"),
        modes=("auto",),
    )
    assert failing(run(sized)) == {("fsdp_transpose=4", "auto")}


def test_a_mesh_that_splits_nothing_is_an_error() -> None:
    results = run(pair(), meshes=("dp2_ep2",), gradients=False)
    assert {result.ruling.verdict for result in results} == {"error"}
    assert all("no argument and no output is split over 'ep'" in str(result.ruling.reason) for result in results)


@pytest.mark.parametrize(
    ("asked", "built", "message"),
    [
        ("dp1_tp1", "tp1_dp1", r"mesh 'dp1_tp1' was asked for, but the mesh that was built is \{'tp': 1, 'dp': 1\}"),
        (
            "dp=1:explicit",
            "dp=1:auto",
            "mesh 'dp=1:explicit' was asked for, but axis 'dp' of the mesh that was built is of another type: "
            "'dp=1:auto'",
        ),
    ],
)
def test_another_mesh_than_asked_for_is_an_error(asked: str, built: str, message: str) -> None:
    mesh = MeshSpec.parse(built).build("auto")
    assert mesh is not None
    x = jax.device_put(jnp.ones(4), jax.NamedSharding(mesh, PartitionSpec("dp")))
    check_mesh_used({"x": x}, {}, MeshSpec.parse(built), mesh)
    with pytest.raises(Exception, match=f"^{message}$"):
        check_mesh_used({"x": x}, {}, MeshSpec.parse(asked), mesh)
