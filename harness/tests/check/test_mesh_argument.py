"""Functions that need a mesh: as an argument, by axis names, or of their own; with a fault planted into each."""

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh, PartitionSpec

from samebits.check.line_evidence import point_interpreter
from samebits.check.prove_points import prove_points
from samebits.errors import DeclarationError
from samebits.host.isolation import take_notes
from samebits.programs.catalogue import Locator
from samebits.programs.plan import Request, plan
from samebits.schema.case import Arg, Case, ContextMesh, Refusal
from samebits.schema.finding import Finding
from samebits.schema.meshes import MODES, MeshSpec
from samebits.schema.pair import Pair
from tests.support.toys import run

Array = jax.Array
AUTO, EXPLICIT = AxisType.Auto, AxisType.Explicit
Side = Any
"""A function of arrays."""


@pytest.fixture(autouse=True)
def notes() -> Iterator[None]:
    take_notes()
    yield
    take_notes()


def plain(x: Array) -> Array:
    return jnp.sum(x * 3, axis=0)


def wrong(x: Array) -> Array:
    return jnp.sum(x * 5, axis=0)


def on(mesh: Any, factor: float = 3.0) -> Side:
    """The same in `shard_map` over a mesh."""

    def local(x: Array) -> Any:
        return jax.lax.psum(jnp.sum(x * factor, axis=0), "dp")

    return jax.shard_map(local, mesh=mesh, in_specs=PartitionSpec("dp", "tp"), out_specs=PartitionSpec("tp"))


def by_argument(x: Array, mesh: Any) -> Any:
    return on(mesh)(x)


def wrong_by_order(x: Array, mesh: Any) -> Any:
    """A fault on meshes whose first axis is `tp`, as code has that numbers devices by hand."""
    return on(mesh, 3.0 if mesh.axis_names[0] == "dp" else 5.0)(x)


def constrained(x: Array) -> Any:
    return jax.lax.with_sharding_constraint(plain(x), PartitionSpec("tp"))


def wrongly_constrained(x: Array) -> Any:
    return jax.lax.with_sharding_constraint(wrong(x), PartitionSpec("tp"))


def own(kind: Any = AUTO, factor: float = 3.0, reverse: bool = False) -> Side:
    """Bound to a mesh object of its own, as functions of a trainer are to the mesh of its configuration."""
    devices = np.array(jax.devices()[:8])[:: -1 if reverse else 1].reshape(2, 4)
    mesh = Mesh(devices, ("dp", "tp"), axis_types=(kind,) * 2)

    def bound(x: Array) -> Any:
        return on(mesh, factor)(x)

    return bound


def pair(reference: Side, *, meshes: tuple[str, ...] = ("dp2_tp4",), statics: Any = None, **sides: Side) -> Pair:
    """A sum over rows that are split."""
    return Pair(
        name="total",
        reference=reference,
        variants=sides,
        args={"x": Arg(shape=(4, 8), spec=("dp", "tp"))},
        cases=(Case(id="small", statics=statics or {}),),
        dtypes=("float32",),
        meshes=meshes,
        modes=("auto",),
    )


def proved(declared: Pair) -> list[Any]:
    points = plan(declared, Request(full=True), devices=8)
    return list(prove_points(declared, Locator(name=declared.name), points))


def verdicts(results: list[Any], variant: str) -> set[str]:
    """The verdicts on a variant, whatever the leaf and direction."""
    return {result.ruling.verdict for result in results if result.place.variant == variant}


def reasons(results: list[Finding]) -> set[str]:
    return {str(result.ruling.reason) for result in results if not result.ruling.ok}


MESH = {"mesh": ContextMesh()}


def test_a_mesh_is_an_argument_of_both_sides() -> None:
    declared = pair(by_argument, meshes=("dp2_tp4", "tp4_dp2"), statics=MESH, plain=plain, order=wrong_by_order)
    results = run(declared, modes=MODES, gradients=False)
    assert {result.ruling.verdict for result in results if result.place.variant != "order"} <= {
        "proved",
        "bitwise",
        "rounding",
    }
    assert all(result.ruling.ok for result in results if result.place.variant != "order")
    assert {result.place.mesh for result in results if result.ruling.verdict == "different"} == {"tp4_dp2"}
    assert {result.place.mesh for result in results if result.place.variant == "order" and result.ruling.ok} == {
        "dp2_tp4"
    }


def test_a_mesh_that_no_side_takes_is_rejected() -> None:
    with pytest.raises(
        DeclarationError, match=r"^pair 'total', case 'small': no side takes 'mesh', which is a Context"
    ):
        run(pair(plain, statics=MESH, honest=constrained))


def test_proofs_have_an_abstract_mesh_as_the_argument() -> None:
    results = proved(pair(plain, meshes=("dp2_tp4", "tp4_dp2"), statics=MESH, honest=by_argument))
    assert verdicts(results, "honest") == {"rounding", "proved"}
    assert all(result.ruling.ok for result in results)
    found = proved(pair(plain, meshes=("tp4_dp2",), statics=MESH, order=wrong_by_order))
    assert verdicts(found, "order") >= {"different"}


def test_the_reference_alone_has_a_mesh_of_one_device() -> None:
    seen = []

    def noting(x: Array, mesh: Any) -> Array:
        seen.append(MeshSpec.of(mesh).id)
        return plain(x)

    assert all(result.ruling.ok for result in run(pair(noting, statics=MESH, honest=by_argument), modes=("explicit",)))
    assert seen[0] == "dp=2:explicit,tp=4:explicit"
    assert "dp=1:explicit,tp=1:explicit" in seen


@pytest.mark.slow
def test_without_a_mesh_both_sides_have_one_of_one_device() -> None:
    """It has the axes of the pair's other meshes, and only where a side needs it."""
    meshes = ("none", "dp2_tp4")
    results = run(pair(by_argument, meshes=meshes, statics=MESH, plain=plain))
    assert all(result.ruling.ok for result in results)
    assert {result.place.mesh for result in results} == set(meshes)
    results = run(pair(plain, meshes=meshes, honest=constrained, planted=wrongly_constrained))
    assert all(result.ruling.ok for result in results if result.place.variant != "planted")
    assert {(result.place.mesh, result.ruling.verdict) for result in results if result.place.variant == "planted"} == {
        ("none", "different"),
        ("dp2_tp4", "different"),
    }
    alone = run(pair(plain, meshes=("none",), honest=constrained))
    assert verdicts(alone, "honest") == {"error"}
    assert all("non-empty mesh" in reason for reason in reasons(alone))


@pytest.mark.slow
def test_names_of_axes_are_known_on_one_device() -> None:
    """`with_sharding_constraint` by names needs a mesh; on one device it is a small one."""
    results = run(pair(constrained, honest=plain, planted=wrongly_constrained), modes=MODES)
    assert all(result.ruling.ok for result in results if result.place.variant != "planted")
    assert verdicts(results, "planted") == {"different"}
    assert verdicts(proved(pair(constrained, honest=plain)), "honest") <= {"rounding", "proved"}


@pytest.mark.slow
def test_a_variant_on_its_own_mesh_runs_on_that_mesh() -> None:
    """Whatever the order of its devices."""
    sides = {"bound": own(), "reversed": own(reverse=True), "planted": own(factor=5.0, reverse=True)}
    results = run(pair(plain, **sides))
    assert all(result.ruling.ok for result in results if result.place.variant != "planted")
    assert verdicts(results, "planted") == {"different"}
    assert verdicts(proved(pair(plain, **sides)), "planted") >= {"different"}


@pytest.mark.parametrize(("kind", "mesh"), [(AUTO, "dp2_tp4"), (EXPLICIT, "dp=2:explicit,tp=4:explicit")])
def test_a_reference_on_its_own_mesh_is_the_baseline(kind: Any, mesh: str) -> None:
    results = run(pair(own(kind), meshes=(mesh,), honest=own(kind, reverse=False), planted=own(kind, factor=5.0)))
    remark = (
        "the reference 'bound' is bound to a mesh of 8 devices of its own and cannot run on one; "
        "the baseline is the reference on that mesh"
    )
    assert all(result.ruling.ok for result in results if result.place.variant != "planted")
    assert verdicts(results, "planted") == {"different"}
    assert all(str(result.ruling.evidence).endswith(remark) for result in results)
    assert take_notes() == [f"pair 'total': {remark}"]
    assert verdicts(proved(pair(own(kind), meshes=(mesh,), planted=own(kind, factor=5.0))), "planted") >= {"different"}


@pytest.mark.parametrize("mesh", ["dp4_tp2", "tp4_dp2", "dp=2:explicit,tp=4:explicit", "none"])
def test_another_mesh_than_a_sides_own_gets_one_line(mesh: str) -> None:
    mode = MeshSpec.parse(mesh).mode or "auto"
    line = (
        f"total: 'own' is bound to a mesh of its own, 'dp=2:auto,tp=4:auto', and the mesh here is '{mesh}' ({mode}); "
        "run it there: meshes=('dp=2:auto,tp=4:auto',) in a Pair, or mesh='dp=2:auto,tp=4:auto' in a call; "
        "or let it take the mesh as an argument: statics={'mesh': ContextMesh()}"
    )
    results = run(pair(plain, meshes=(mesh,), own=own()), Request(variants=("own",), full=True))
    assert verdicts(results, "own") == {"error"}
    assert reasons(results) == {line}
    assert {each.ruling.reason for each in proved(pair(plain, meshes=(mesh,), own=own())) if not each.ruling.ok} == {
        line
    }


def test_a_mesh_with_default_types_is_found_by_its_variable() -> None:
    """`jax.make_mesh` makes axes explicit, and then such a function cannot even be traced elsewhere."""
    results = run(pair(plain, own=own(EXPLICIT)), Request(variants=("own",), full=True))
    (line,) = reasons(results)
    assert "'own' is bound to a mesh of its own, 'dp=2:explicit,tp=4:explicit'" in line


def auto_only(x: Array, w: Array) -> Array:
    """Ambiguous where axes are explicit: both dimensions of the product that are summed over are split."""
    return x @ w


def with_sharding(x: Array, w: Array) -> Array:
    mesh = jax.sharding.get_abstract_mesh()
    return jnp.einsum("ij,jk->ik", x, w, out_sharding=PartitionSpec("dp", None) if mesh.explicit_axes else None)


def wrong_if_explicit(x: Array, w: Array) -> Array:
    return with_sharding(x, w) * (2.0 if jax.sharding.get_abstract_mesh().explicit_axes else 1.0)


def product(**sides: Side) -> Pair:
    return Pair(
        name="product",
        reference=auto_only,
        variants=sides,
        args={"x": Arg(shape=(4, 8), spec=("dp", "tp")), "w": Arg(shape=(8, 4), spec=("tp", None))},
        cases=(Case(id="small"),),
        dtypes=("float32",),
        meshes=("dp2_tp4",),
        modes=MODES,
    )


def test_a_reference_without_an_explicit_form_is_no_error() -> None:
    results = run(product(honest=with_sharding, planted=wrong_if_explicit))
    reference = {
        (result.place.mode, result.ruling.verdict) for result in results if result.place.variant == "auto_only"
    }
    assert ("explicit", "skipped") in reference
    assert {verdict for mode, verdict in reference if mode == "auto"} <= {"bitwise", "rounding"}
    assert all(result.ruling.ok for result in results if result.place.variant == "honest")
    explicit = [result for result in results if result.place.variant == "honest" and result.place.mode == "explicit"]
    assert {result.place.direction for result in explicit} == {"forward", "gradient"}
    assert all("compared with it on one device only" in str(result.ruling.evidence) for result in explicit)
    wrong_in = {
        result.place.mode
        for result in results
        if result.place.variant == "planted" and result.ruling.verdict == "different"
    }
    assert wrong_in == {"explicit"}
    skipped = [result for result in results if result.ruling.verdict == "skipped"]
    start = "the reference 'auto_only' has no form for explicit axes (raised ShardingTypeError: "
    assert all(str(result.ruling.reason).startswith(start) for result in skipped)
    assert [note.split(" (")[0] for note in take_notes()] == [f"pair 'product': {start.split(' (')[0]}"]


def test_proofs_do_without_an_explicit_form_too() -> None:
    results = proved(product(honest=with_sharding, planted=wrong_if_explicit))
    assert {r.ruling.verdict for r in results if r.place.variant == "auto_only" and r.place.mode == "explicit"} == {
        "skipped"
    }
    assert verdicts(results, "honest") <= {"rounding", "proved"}
    assert {r.place.mode for r in results if r.ruling.verdict == "different"} == {"explicit"}


def test_a_reference_that_fails_everywhere_stays_an_error() -> None:
    def broken(x: Array, w: Array) -> Array:
        raise TypeError("no such thing")

    results = run(product(honest=with_sharding), reference=broken)
    assert {result.ruling.verdict for result in results} == {"error"}
    assert all("raised TypeError: no such thing" in str(result.ruling.reason) for result in results)


def test_an_expected_error_may_need_the_names_of_axes() -> None:
    def strict(x: Array) -> Array:
        x = jax.lax.with_sharding_constraint(x, PartitionSpec("dp", "tp"))
        if x.shape[0] % 3:
            raise ValueError("rows must divide by 3")
        return x

    case = Case(id="small", refuses=(Refusal(error="ValueError", match="divide by 3"),))
    results = run(pair(strict, same=lambda x: strict(x), lax=lambda x: x), cases=(case,))
    assert verdicts(results, "same") == {"refused"}
    assert verdicts(results, "lax") == {"different"}


def test_training_asks_the_same_of_a_point() -> None:
    declared = pair(constrained, honest=plain, planted=wrong)
    points = plan(declared, Request(directions=("forward",)), devices=8).points
    with point_interpreter(declared) as interpreter:
        assert {point.variant for point in points if interpreter.questions(point)} == set(declared.sides)
