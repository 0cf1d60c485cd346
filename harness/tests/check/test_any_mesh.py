"""Meshes of any axes, with types of their own, and no mesh: what holds is green, and what differs there is found."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.sharding import PartitionSpec
from jax.sharding import PartitionSpec as P

from samebits.programs.placement import check_mesh_used
from samebits.programs.plan import Request
from samebits.report.check import read_document
from samebits.schema.case import Arg, AxisSize, Case
from samebits.schema.contract import Contract, Exemption
from samebits.schema.finding import Finding
from samebits.schema.meshes import MODES, MeshSpec
from samebits.schema.pair import Pair
from samebits.schema.values import Integers
from tests.support.child import run_python
from tests.support.toys import of, run, toy

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


# Meshes of more than eight devices, on the CPU; slow, so they have a command of their own.


@pytest.mark.slow
@pytest.mark.cpu_only
@pytest.mark.parametrize(
    ("pair", "mesh", "devices"), [("sequence_reorder", "context128", 128), ("token_exchange", "expert64", 64)]
)
def test_a_wide_mesh_holds_and_every_device_is_used(pair: str, mesh: str, devices: int, tmp_path: Path) -> None:
    """What `--devices` promises: the same check on as many devices as asked for, on two cores."""
    report = tmp_path / "r.json"
    done = run_python("-m", "samebits", "check", pair, "--devices", str(devices), "--mesh", mesh, "--json", str(report))
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    results = read_document(report).results
    assert {(r.place.mesh, r.run.devices) for r in results if r.ruling.verdict != "refused"} == {(mesh, devices)}
    assert {r.place.direction for r in results} == {"forward", "gradient"}


# Differences caused by the mesh are reported for the reference, differences caused by the variant for the variant.
ROUNDING = (Contract(lowest="rounding", reason="for the sake of the test"),)


def _sharded() -> bool:
    return not jax.sharding.get_abstract_mesh().empty


def local(x: Any, function: Callable[[Any], Any]) -> Any:
    """A function of each device's own rows, on a mesh."""
    return jax.shard_map(function, in_specs=P("data"), out_specs=P("data"))(x) if _sharded() else function(x)


def each_its_own_mean(x: Any, *, factor: float = 2.0) -> Any:
    """The planted fault of a sharding: on a mesh, every device takes the mean of its rows alone."""
    return local(x, lambda rows: (rows - rows.mean(0)) * factor)


def its_own_mean_too(x: Any, *, factor: float = 2.0) -> Any:
    """A variant with the same fault, and nothing else."""
    return local(x, lambda rows: factor * (rows - rows.mean(0)))


def wrong_besides(x: Any, *, factor: float = 2.0) -> Any:
    """The same fault, and another factor."""
    return local(x, lambda rows: (rows - rows.mean(0)) * (factor + 1))


def right_on_the_mesh(x: Any, *, factor: float = 2.0) -> Any:
    """The reference as it is on one device."""
    return (x - x.mean(0)) * factor


def results(pair: Any, *variants: str, **changes: Any) -> list[Finding]:
    """The forward results of a pair, or those of some of its sides."""
    return run(pair, Request(variants=variants, directions=("forward",), full=True), **changes)


def test_a_fault_of_the_sharding_is_red_in_the_reference_alone() -> None:
    found = results(toy(each_its_own_mean, same=its_own_mean_too), contracts=ROUNDING)
    (own,) = of(found, variant="each_its_own_mean")
    assert (own.ruling.verdict, own.ruling.ok) == ("different", False)
    (same,) = of(found, variant="same")
    assert (same.ruling.verdict, same.ruling.ok, same.comparison.mismatches, same.comparison.witness) == (
        "bitwise",
        True,
        0,
        None,
    ), same
    assert same.ruling.evidence is not None
    assert same.ruling.evidence.startswith(
        "the same bits as the reference on this mesh: the mesh moves them, not the variant"
    )
    assert "suspect it first" in same.ruling.evidence


def test_where_both_are_wrong_the_sharding_is_said_first() -> None:
    (wrong,) = results(toy(each_its_own_mean, wrong=wrong_besides), "wrong", contracts=ROUNDING)
    assert (wrong.ruling.verdict, wrong.ruling.ok) == ("different", False)
    assert wrong.ruling.evidence is not None and wrong.ruling.evidence.startswith("the sharding: ")


def test_a_fault_of_the_variant_does_not_blame_the_sharding() -> None:
    def wrong(x: Any, *, factor: float = 2.0) -> Any:
        return (x - x.mean(0)) * (factor + 1)

    (found,) = results(toy(right_on_the_mesh, wrong=wrong), "wrong", contracts=ROUNDING)
    assert (found.ruling.verdict, found.ruling.ok) == ("different", False)
    assert found.ruling.evidence is not None and "sharding" not in found.ruling.evidence


def test_a_right_variant_passes_where_the_reference_is_wrong() -> None:
    (right,) = results(toy(each_its_own_mean, right=right_on_the_mesh), "right", contracts=ROUNDING)
    assert right.ruling.ok and right.ruling.verdict in ("proved", "bitwise", "rounding"), right


def summed(x: Any, *, factor: float = 2.0) -> Any:
    """A sum of rows: on a mesh it is taken in parts, which rounds otherwise."""
    return x.sum(0) * (factor / 3) if not _sharded() else _in_parts(x) * (factor / 3)


def _in_parts(x: Any) -> Any:
    return jax.shard_map(lambda rows: lax.psum(rows.sum(0), "data"), in_specs=P("data"), out_specs=P())(x)


def summed_too(x: Any, *, factor: float = 2.0) -> Any:
    """The same in the same order."""
    return summed(x, factor=factor)


def test_rounding_by_the_mesh_does_not_fail_a_bitwise_variant() -> None:
    found = results(dataclasses.replace(toy(summed, same=summed_too), contracts=(Contract(),)))
    (own,) = of(found, variant="summed")
    assert (own.ruling.verdict, own.ruling.ok) == ("rounding", False)
    (same,) = of(found, variant="same")
    assert (same.ruling.verdict, same.ruling.ok) == ("bitwise", True), same
    assert same.ruling.evidence is not None and "the mesh moves both within rounding" in same.ruling.evidence


@pytest.mark.parametrize("epsilon", [1e-6, 1e-8])
def test_equal_bits_on_the_mesh_do_not_hide_other_formulas(epsilon: float) -> None:
    """The mesh moves bits of both sides, and bfloat16 hides an epsilon: the formula is another all the same."""

    def norm(x: Any, epsilon: float) -> Any:
        wide = x.astype(jnp.float32)
        total = _in_parts(wide * wide) if _sharded() else (wide * wide).sum(0)
        return (wide * lax.rsqrt(total / 8 + epsilon)).astype(x.dtype)

    def reference(x: Any, *, factor: float = 2.0) -> Any:
        return norm(x, 0.0)

    def other(x: Any, *, factor: float = 2.0) -> Any:
        return norm(x, epsilon)

    changes: dict[str, Any] = {"dtypes": ("bfloat16",), "contracts": ROUNDING}
    (found,) = results(toy(reference, other=other), "other", **changes)
    assert (found.ruling.verdict, found.ruling.ok) == ("different", False), found


def test_exemptions_hold_against_one_device_as_they_say() -> None:
    """An exemption of every side's row on this mesh matches the variant's too; without it only the reference is red."""
    known = Exemption(kind="other", reason="FINDING: on a mesh every device subtracts the mean of its own rows")
    found = results(toy(each_its_own_mean, same=its_own_mean_too), contracts=ROUNDING, exemptions=(known,))
    assert [(r.ruling.verdict, r.ruling.ok, r.ruling.exempt) for r in found] == [("different", True, True)] * 2, found
    assert all(r.comparison.mismatches for r in found)


def decayed(x: Any, step: Any, *, factor: float = 2.0) -> Any:
    """The reference on a mesh has other bits than alone, and every tenth step does more."""
    return each_its_own_mean(x, factor=factor) - jnp.where(step % 10 == 0, x, 0)


def test_what_differs_at_another_step_is_different_on_a_mesh_too() -> None:
    """Though at this step it has the bits of the reference on this mesh, which are not those of one device."""
    pair = toy(
        decayed,
        same=lambda x, step, *, factor=2.0: its_own_mean_too(x, factor=factor) - x * (step % 10 == 0),
        never=lambda x, step, *, factor=2.0: its_own_mean_too(x, factor=factor),
    )
    assert not callable(pair.args)
    step = Arg(shape=(), dtype="int32", values=Integers(low=1, high=1000))
    pair = dataclasses.replace(pair, args={**pair.args, "step": step})
    found = results(pair, "never", "same", contracts=ROUNDING)
    (never,) = of(found, variant="never")
    assert (never.ruling.verdict, never.ruling.ok) == ("different", False), never
    assert never.ruling.evidence is not None and "not the same at other inputs" in never.ruling.evidence
    (same,) = of(found, variant="same")
    assert (same.ruling.verdict, same.ruling.ok) == ("bitwise", True), same
