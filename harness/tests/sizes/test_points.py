"""Points for all sizes: their rows, their judgement, and the cross-examination at the declared sizes."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from samebits import Arg, AxisSize, Case, Pair
from samebits.check.prove_points import PointProver
from samebits.errors import CheckerBroken
from samebits.interpret.labels import LabelIdentity
from samebits.programs.catalogue import Locator
from samebits.schema.point import Point
from samebits.sizes import points
from samebits.sizes.points import METHOD, SizePointProver
from suites.test_embedding import PAIR as EMBEDDING
from suites.test_sequence_reorder import PAIR
from tests.support.findings import changed

POINT = Point(variant="structured", case="bshd", dtype="float32", mesh="context4", mode="auto", direction="gradient")


def rolled(x: jax.Array, *, cp: int) -> jax.Array:
    return x.reshape(cp, -1)[::-1].reshape(-1)


def wrong_at_sixteen(x: jax.Array, *, cp: int) -> jax.Array:
    return x if cp == 16 else rolled(x, cp=cp)


def doubled(x: jax.Array, *, cp: int) -> jax.Array:
    return jnp.exp(x)[::-1]


def added(x: jax.Array, *, cp: int) -> jax.Array:
    return jnp.exp(x[::-1])


def asks_at_sixteen(x: jax.Array, *, cp: int) -> jax.Array:
    wrong = x.shape[0] == 16 and not jax.sharding.get_abstract_mesh().empty
    return x if wrong else rolled(x, cp=cp)


FAULTY = Pair(
    name="rolled",
    reference=rolled,
    variants={"wrong_at_sixteen": wrong_at_sixteen},
    args=lambda case, mesh: {"x": Arg(shape=(mesh.size("context") * case.sizes["group"],), spec=("context",))},
    cases=(Case(id="small", sizes={"group": 3}, statics={"cp": AxisSize(axis="context")}),),
    dtypes=("float32",),
    meshes=("data2", "context2"),
    gradients=False,
)
WRONG = Point(
    variant="wrong_at_sixteen", case="small", dtype="float32", mesh="context2", mode="auto", direction="forward"
)


@pytest.fixture
def prover() -> SizePointProver:
    return SizePointProver(PAIR, Locator(name="sequence_reorder"), "cpu")


@pytest.mark.slow
def test_a_proof_says_for_which_sizes(prover: SizePointProver) -> None:
    (row,) = prover.results(POINT)
    assert [taken.word for taken in row.proof.assumptions] == ["symbols"]
    assert (row.ruling.verdict, row.proof.method, row.ruling.ok, row.place.leaf) == ("proved", METHOD, True, "x")
    assert row.proof.family is not None
    assert row.proof.family.shapes == {"x": "float32[batch, 2*context*group, heads, dim]"}
    assert (row.proof.family.mesh, row.proof.family.counterexample) == (None, {})
    assert "context >= 1" in row.proof.family.conditions
    assert "no_negative_zero=the cotangent of out" in row.proof.words
    assert row.replay.startswith("samebits prove sequence_reorder --variant structured")
    assert row.replay.endswith("--direction gradient --all-sizes")


def test_an_expected_error_is_looked_at_as_it_is(prover: SizePointProver) -> None:
    (row,) = prover.results(replace(POINT, case="indivisible", direction="forward"))
    assert (row.ruling.verdict, row.proof.sizes, row.proof.family) == ("refused", None, None)


def test_a_denial_at_the_declared_sizes_is_no_result(prover: SizePointProver, monkeypatch: pytest.MonkeyPatch) -> None:
    denied = {"x": LabelIdentity(False, 1, witness="x[0] is another one")}
    monkeypatch.setattr(prover._prover, "movement", lambda question: denied)
    with pytest.raises(CheckerBroken, match=r"at the declared ones it is different \(x\[0\] is another one\)"):
        prover.results(replace(POINT, mesh="context2"))


def test_a_condition_on_inputs_is_no_refuted_exemption() -> None:
    prover = SizePointProver(EMBEDDING, Locator(name="embedding"), "cpu")
    point = Point(variant="gather", case="infinity", dtype="float32", mesh="data2", mode="auto", direction="forward")
    (row,) = prover.results(point)
    assert (row.ruling.verdict, row.ruling.ok, row.refutes) == ("proved", True, False)
    assert str(row.ruling.reason).startswith("reached at the declared sizes; for all sizes it ")
    assert "finite=table" in row.proof.unkept


def test_a_refutation_is_replayed_by_a_run_at_its_sizes() -> None:
    (row,) = SizePointProver(FAULTY, Locator(name="rolled"), "cpu").results(WRONG)
    assert (row.ruling.verdict, row.proof.sizes, row.refutes) == ("different", None, True)
    assert row.replay.startswith("samebits check rolled --variant wrong_at_sixteen ")
    assert " --mesh context16 " in row.replay
    assert row.replay.endswith("--devices 16")
    (elsewhere,) = SizePointProver(FAULTY, Locator(name="rolled"), "cpu").results(replace(WRONG, mesh="data2"))
    assert " --mesh context16 " in elsewhere.replay


def test_more_devices_than_can_be_emulated_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(points, "MOST_DEVICES", 8)
    (row,) = SizePointProver(FAULTY, Locator(name="rolled"), "cpu").results(WRONG)
    assert row.ruling.reason == "it takes 16 devices to run it: no run shows it"
    assert row.replay.startswith("samebits prove rolled ")


def test_formulas_reach_a_contract_where_rounding_is_derived(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = replace(FAULTY, name="doubled", reference=doubled, variants={"added": added}, meshes=("context2",))
    point = replace(WRONG, variant="added")
    (row,) = SizePointProver(pair, Locator(name="doubled"), "cpu").results(point)
    assert [taken.word for taken in row.proof.assumptions][:2] == ["symbols", "numbers"]
    assert (row.ruling.verdict, row.proof.sizes) == ("rounding", "all")
    declared = changed(row, ok=False, reason="accuracy is not decided by proof")
    monkeypatch.setattr(PointProver, "results", lambda self, point: [declared])
    (row,) = SizePointProver(pair, Locator(name="doubled"), "cpu").results(point)
    assert (row.ruling.verdict, row.ruling.ok, row.ruling.reason) == (
        "rounding",
        False,
        "accuracy is not decided by proof",
    )
    monkeypatch.setattr(PointProver, "results", lambda self, point: [changed(declared, verdict="different")])
    with pytest.raises(CheckerBroken, match="the same formulas for all sizes, and at the declared ones they are not"):
        SizePointProver(pair, Locator(name="doubled"), "cpu").results(point)


def test_code_that_asks_for_the_mesh_at_one_size_is_for_one_mesh() -> None:
    pair = replace(FAULTY, variants={"asks_at_sixteen": asks_at_sixteen})
    prover = SizePointProver(pair, Locator(name="rolled"))
    for mesh in ("context2", "context4"):
        (row,) = prover.results(replace(WRONG, variant="asks_at_sixteen", mesh=mesh))
        assert row.ruling.verdict != "proved", row
        assert row.proof.family is None or row.proof.family.mesh is not None
    prover.close()


@pytest.mark.slow
def test_one_program_has_the_same_bits_on_one_device() -> None:
    pair = replace(
        FAULTY, reference=doubled, variants={"jitted": jax.jit(doubled, static_argnames="cp"), "added": added}
    )
    prover = SizePointProver(pair, Locator(name="rolled"))
    for mesh, shown in (("context1", "proved"), ("context2", "rounding")):
        (row,) = prover.results(replace(WRONG, variant="jitted", mesh=mesh))
        assert (row.ruling.verdict, row.proof.sizes) == (shown, "all"), row
        assert row.proof.family is not None and row.proof.family.one_program
        (row,) = prover.results(replace(WRONG, variant="added", mesh=mesh))
        assert row.ruling.verdict == "rounding"
        assert row.proof.family is not None and not row.proof.family.one_program
    prover.close()


def sliced(x: jax.Array, *, cp: int) -> jax.Array:
    return jnp.exp(jax.lax.slice_in_dim(x.reshape(cp, -1), 0, None, 3, axis=1))


def picked(x: jax.Array, *, cp: int) -> jax.Array:
    rows = x.reshape(cp, -1)
    places = 3 * jnp.arange(rows.shape[1] // 3)
    how: Any = {"mode": "promise_in_bounds", "indices_are_sorted": True, "unique_indices": True}
    return jnp.exp(rows.at[:, places].get(**how, wrap_negative_indices=False))


def test_a_gather_that_runs_is_not_taken_for_a_slice() -> None:
    case = replace(FAULTY.cases[0], sizes={"group": 6}, symbols={"group": "3*part"})
    pair = replace(
        FAULTY,
        reference=lambda x, *, cp: jnp.exp(x.reshape(cp, -1)[:, 0::3]),
        variants={"sliced": sliced, "picked": picked},
        cases=(case,),
    )
    prover = SizePointProver(pair, Locator(name="rolled"))
    for variant, shown in (("sliced", "proved"), ("picked", "rounding")):
        (row,) = prover.results(replace(WRONG, variant=variant, mesh="context1"))
        assert (row.ruling.verdict, row.proof.sizes) == (shown, "all"), row
    prover.close()


def test_integers_are_refuted_as_their_declaration_draws_them() -> None:
    """A variant that is right for positions in order alone is right for the case, at every size."""

    def by_place(x: jax.Array, positions: jax.Array) -> jax.Array:
        return jnp.cumsum(x)

    def wrong_at_seven(x: jax.Array, positions: jax.Array) -> jax.Array:
        return jnp.cumsum(x) if x.shape[0] != 7 else x

    pair = Pair(
        name="positions",
        reference=lambda x, positions: jnp.where(positions[None, :] <= positions[:, None], x[None, :], 0.0).sum(1),
        variants={"by_place": by_place, "wrong_at_seven": wrong_at_seven},
        args={
            "x": Arg(shape=("n",)),
            "positions": Arg(
                shape=("n",), dtype="int32", values=lambda rng, shape: np.broadcast_to(np.arange(shape[-1]), shape)
            ),
        },
        cases=(Case(id="small", sizes={"n": 5}),),
        dtypes=("float32",),
        meshes=("data1",),
        gradients=False,
    )
    prover = SizePointProver(pair, Locator(name="positions"))
    shown = {}
    for variant in ("by_place", "wrong_at_seven"):
        (row,) = prover.results(replace(WRONG, variant=variant, mesh="data1"))
        shown[variant] = row.ruling.verdict
    prover.close()
    assert shown == {"by_place": "error", "wrong_at_seven": "different"}
