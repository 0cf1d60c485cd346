"""Points that labels prove: which are executed all the same, and what is seen of those that are not."""

import dataclasses
from dataclasses import asdict
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from samebits.check.cross_checks import CrossChecks
from samebits.check.execution import MovementProof
from samebits.check.run_points import run_points
from samebits.check.runner import Runner
from samebits.programs import program_cache
from samebits.programs.catalogue import Locator
from samebits.programs.plan import Request, plan
from samebits.programs.program_cache import Programs
from samebits.schema.case import Case
from samebits.schema.contract import Contract
from samebits.schema.finding import Finding, point_of
from samebits.schema.meshes import MeshSpec
from samebits.schema.pair import Pair
from samebits.schema.point import USUAL, Effort, Point
from tests.support.findings import flat
from tests.support.toys import of, toy

SPARING = Effort(sparing=True)
UNSEEN_ALONE = ("bits", "devices", "evidence", "layout", "alone", "seconds")
"""What a point that is not executed does not have, or has in other words."""


def turned(x: Any) -> Any:
    return x[::-1]


def flipped(x: Any) -> Any:
    return jnp.flip(x, 0)


def forward(pair: Pair) -> Pair:
    """Without gradients: half of its points."""
    return dataclasses.replace(pair, gradients=False)


def mirrors(**sides: Any) -> Pair:
    """A pair that only moves data, on three meshes in two dtypes."""
    return dataclasses.replace(
        toy(turned, **(sides or {"flipped": flipped})),
        cases=(Case(id="small", sizes={"rows": 8, "columns": 16}), Case(id="tall", sizes={"rows": 24, "columns": 4})),
        dtypes=("float32", "bfloat16"),
        meshes=("data2", "data4", "data2_tensor2"),
    )


def points_of(pair: Pair) -> tuple[Point, ...]:
    return plan(pair, Request(), 8).points


def results_of(pair: Pair, effort: Effort) -> list[Finding]:
    programs = Programs(threads=1)
    try:
        return list(run_points(pair, Locator(name=pair.name), points_of(pair), programs, effort))
    finally:
        programs.close()


def test_each_side_and_direction_runs_with_every_value() -> None:
    """No mesh, dtype, mode or case of a variant and direction is left to proofs alone; and not all points run."""
    pair = mirrors()
    points, executed = points_of(pair), CrossChecks(pair, 8).points
    assert executed < set(points)
    for axis in ("case", "dtype", "mesh", "mode"):
        for side in {(p.variant, p.direction) for p in points}:
            every, some = (
                {getattr(p, axis) for p in group if (p.variant, p.direction) == side} for group in (points, executed)
            )
            assert some == every


@pytest.mark.parametrize("factor", [None, 1, 2])
def test_a_proof_says_whether_elements_were_only_moved(factor: int | None) -> None:
    """A product is proved too, the same one on both sides, but it is more than movement, even one with 1."""
    pair = mirrors()
    if factor is not None:
        pair = dataclasses.replace(mirrors(scaled=lambda x: x[::-1] * factor), reference=lambda x: factor * x[::-1])
    point = next(p for p in points_of(pair) if p not in CrossChecks(pair, 8).points)
    programs = Programs(threads=1)
    try:
        proof = Runner(pair, programs, SPARING).start(point).movement
    finally:
        programs.close()
    assert isinstance(proof, MovementProof)
    assert (proof.holds, proof.only_moved) == (True, factor is None)


def test_the_selection_depends_on_the_declaration_alone() -> None:
    """Two processes that check halves of a pair agree on what is executed."""
    assert CrossChecks(mirrors(), 8).points == CrossChecks(mirrors(), 8).points


def test_what_is_not_executed_has_the_verdict_of_its_execution() -> None:
    """Rows differ only in what an execution alone can show, and say so."""
    pair = dataclasses.replace(mirrors(), meshes=("data2",))
    every, sparing = results_of(pair, USUAL), results_of(pair, SPARING)
    alone = [result for result in sparing if result.proof.alone]
    assert alone
    assert len(alone) < len(sparing)
    for executed, proved in zip(every, sparing, strict=True):
        left_out = UNSEEN_ALONE if proved.proof.alone else ("seconds",)
        first, second = ({k: v for k, v in flat(asdict(r)).items() if k not in left_out} for r in (executed, proved))
        assert first == second
    assert alone[0].ruling.evidence == (
        "both sides only move data, each element from the same place; of the program as written: not "
        "executed here, but at "
        f"{CrossChecks(pair, 8).others(_point(alone[0]))} other points of this variant and direction; "
        "--full executes all"
    )


def test_a_wrong_variant_is_caught_where_honest_ones_do_not_run() -> None:
    """A planted fault in one dtype on one mesh: labels see it, and then the point is executed."""
    pair = forward(mirrors())
    executed = CrossChecks(pair, 8).points
    target = next(p for p in points_of(pair) if p not in executed and p.variant == "flipped")

    def wrong(x: Any) -> Any:
        mesh, rows = jax.sharding.get_abstract_mesh(), mirrors().case(target.case).sizes["rows"]
        shape = dict(mesh.shape)
        here = "_".join(f"{axis}{size}" for axis, size in shape.items()) == target.mesh
        return x if here and x.dtype.name == target.dtype and x.shape[0] == rows else flipped(x)

    results = results_of(forward(mirrors(flipped=wrong)), SPARING)
    assert {_point(result) for result in results if not result.ruling.ok} >= {target}
    assert {result.ruling.verdict for result in results if _point(result) == target} == {"different"}


def test_a_compiler_that_is_wrong_everywhere_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Right as it is written and wrong as it is compiled: only execution shows it, so some points must run."""
    _plant_in_compiler(monkeypatch, lambda mesh: mesh is not None and mesh.size == 4)
    results = results_of(forward(mirrors()), SPARING)
    assert not all(result.ruling.ok for result in results)
    assert {result.place.mesh for result in results if not result.ruling.ok} == {"data4", "data2_tensor2"}


def test_a_compiler_wrong_at_one_point_is_caught_by_all_points(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the default check cannot see, and `--full` or a request for the point can; docs/limits.md says so."""
    pair = forward(mirrors())
    executed = CrossChecks(pair, 8).points
    target = next(p for p in points_of(pair) if p not in executed and p.variant == "turned")
    rows = mirrors().case(target.case).sizes["rows"]
    axes = MeshSpec.parse(target.mesh).axes

    def there(mesh: Any) -> bool:
        return mesh is not None and tuple(mesh.shape.items()) == axes

    _plant_in_compiler(monkeypatch, there, rows=rows, dtype=target.dtype)
    sparing, every = results_of(pair, SPARING), results_of(pair, USUAL)
    assert {r.ruling.ok for r in sparing if _point(r) == target} == {True}
    assert {r.proof.alone for r in sparing if _point(r) == target} == {True}
    assert {r.ruling.ok for r in every if _point(r) == target} == {False}


@pytest.mark.slow
def test_where_rounding_is_accepted_every_point_runs() -> None:
    """Such a contract speaks of what the compiler does."""
    contract = Contract(lowest="rounding", reason="the partitioner adds zeros: at most 1 ulp")
    pair = dataclasses.replace(mirrors(), contracts=(contract,))
    assert not any(result.proof.alone for result in results_of(pair, SPARING))


@pytest.mark.slow
def test_arithmetic_is_executed_everywhere() -> None:
    """One product on both sides is proved by labels too, but a compiler has more to do there than to move."""
    pair = mirrors(doubled=lambda x: x[::-1] * 2)
    pair = dataclasses.replace(pair, reference=lambda x: 2 * x[::-1])
    results = results_of(pair, SPARING)
    assert {result.ruling.verdict for result in results} == {"proved"}
    assert not any(result.proof.alone for result in results)


@pytest.mark.slow
def test_a_mesh_with_an_idle_axis_is_executed() -> None:
    """The layouts of what the compiler gives back must show that each axis splits something."""
    results = results_of(dataclasses.replace(mirrors(), meshes=("data2", "data4_fsdp2")), SPARING)
    assert {result.ruling.verdict for result in of(results, mesh="data4_fsdp2")} == {"error"}


def test_equal_elements_are_an_error_without_execution_too() -> None:
    """A permutation of equal elements shows nothing, and no proof is needed to say so."""
    pair = mirrors(spread=lambda x: x[-1:].repeat(len(x), 0)[:, ::-1][:, :1].repeat(x.shape[1], 1))
    pair = forward(dataclasses.replace(pair, reference=lambda x: x[-1, -1] + 0 * x, meshes=("data2",)))
    assert CrossChecks(pair, 8).points < set(points_of(pair))
    results = results_of(pair, SPARING)
    assert {result.ruling.verdict for result in results} == {"error"}


def _point(result: Finding) -> Point:
    return point_of(result.place)


def _plant_in_compiler(
    monkeypatch: pytest.MonkeyPatch, where: Any, rows: int | None = None, dtype: str | None = None
) -> None:
    """Have programs on some meshes, perhaps with so many rows and of one dtype, compiled to give their input back."""
    honest = program_cache._compile

    def planted(lowered: Any, setup: Any) -> Any:
        program = honest(lowered, setup)
        if not where(setup.mesh):
            return program

        def run(*args: Any) -> Any:
            outputs = program(*args)

            def changed(leaf: Any) -> Any:
                if (rows is not None and leaf.shape[0] != rows) or (dtype is not None and leaf.dtype.name != dtype):
                    return leaf
                return jax.device_put(leaf[::-1], leaf.sharding)

            return jax.tree.map(changed, outputs)

        return run

    monkeypatch.setattr(program_cache, "_compile", planted)
