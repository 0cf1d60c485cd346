"""The audit of contracts and exemptions after a sweep, from plans and results made by hand."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from samebits.check.contract_audit import DeclarationAudit, judge_declaration, machine_dependent, only_seen_note
from samebits.programs.plan import Plan, Request, plan
from samebits.schema.case import Arg, Case
from samebits.schema.contract import Contract, Exemption
from samebits.schema.domain import Domain
from samebits.schema.finding import Finding, where
from samebits.schema.pair import Pair
from samebits.schema.point import Point
from tests.support.documents import result
from tests.support.toys import run, toy

FINDING = "the first row is lost"
NOTHING = DeclarationAudit([], [])


def pair_with(*, contracts: tuple[Contract, ...] = (), exemptions: tuple[Exemption, ...] = ()) -> Pair:
    return Pair(
        name="norm",
        reference=len,
        variants={"fast": max},
        args={"x": Arg(shape=("rows",), spec=("data",))},
        cases=tuple(Case(id=f"c{rows}", sizes={"rows": rows}) for rows in (16, 32, 64)),
        dtypes=("float32", "bfloat16", "float16"),
        meshes=("data1", "data2", "data4"),
        wide_meshes=("data16",),
        contracts=contracts,
        exemptions=exemptions,
    )


def ran(
    pair: Pair, request: Request | None = None, leaf: Callable[[Point], Any] = lambda _: {}
) -> tuple[Plan, list[Finding]]:
    """A plan on 8 devices, with a result that holds for every point, but for what `leaf` gives."""
    planned = plan(pair, request or Request(), 8)
    return planned, [result(**{**where(point), **leaf(point)}) for point in planned.points]


def unplanned(pair: Pair) -> Point:
    """A point of the product that the covering selection leaves out."""
    chosen = set(plan(pair, Request(), 8).points)
    return next(point for point in plan(pair, Request(full=True), 8).points if point not in chosen)


def scope_of(point: Point) -> dict[str, Any]:
    return {name: value for name, value in where(point).items() if name != "variant"}


def test_an_exemption_that_matches_nothing_is_a_problem() -> None:
    pair = pair_with(exemptions=(Exemption(leaf="rows", reason=FINDING),))
    notes, problems, _ = judge_declaration(pair, *ran(pair))
    assert notes == []
    assert [(p.pair, p.message, p.exit_code) for p in problems] == [
        ("norm", "pair 'norm': exemption (leaf=rows) matches no result; remove it", 2)
    ]


def test_an_exemption_of_an_unselected_point_is_not_reported() -> None:
    point = unplanned(pair_with())
    pair = pair_with(exemptions=(Exemption(reason=FINDING, **scope_of(point)),))
    assert judge_declaration(pair, *ran(pair)) == NOTHING
    assert judge_declaration(pair, *ran(pair, Request(full=True)))[1] == []


def test_but_it_is_where_the_case_is_known_to_have_no_such_leaf() -> None:
    point = unplanned(pair_with())
    pair = pair_with(exemptions=(Exemption(reason=FINDING, leaf="rows", **scope_of(point)),))
    assert len(judge_declaration(pair, *ran(pair))[1]) == 1
    assert len(judge_declaration(pair, *ran(pair, Request(full=True)))[1]) == 1


def test_an_exemption_of_a_mesh_that_does_not_fit_here_is_none() -> None:
    pair = pair_with(exemptions=(Exemption(mesh="data16", reason=FINDING),))
    assert judge_declaration(pair, *ran(pair, Request(full=True))) == NOTHING


@pytest.mark.parametrize("verdict", ["error", "skipped"])
def test_an_exemption_is_not_judged_where_points_gave_no_leaves(verdict: str) -> None:
    pair = pair_with(exemptions=(Exemption(leaf="rows", reason=FINDING),))

    def failing(point: Point) -> dict[str, Any]:
        return {"verdict": verdict, "ok": False, "leaf": "*"} if point.case == "c32" else {}

    assert judge_declaration(pair, *ran(pair, leaf=failing)) == NOTHING


def test_a_replica_of_a_leaf_is_covered_as_the_leaf_is() -> None:
    pair = pair_with(exemptions=(Exemption(leaf="out", reason=FINDING),))
    planned, results = ran(pair, leaf=lambda _: {"leaf": "out (replica on device 3)"})
    assert judge_declaration(pair, planned, results) == NOTHING


def test_nothing_is_said_of_a_filtered_sweep() -> None:
    pair = pair_with(exemptions=(Exemption(leaf="rows", reason=FINDING),))
    assert judge_declaration(pair, *ran(pair, Request(cases=("c16",)))) == NOTHING


def test_a_contract_that_governs_nothing_is_a_note() -> None:
    lower = Contract(lowest="rounding", reason=FINDING, dtype="bfloat16")
    pair = pair_with(contracts=(lower, Contract(domain=Domain(finite=("*",)))))
    note = "norm: the contract (dtype=bfloat16) covers no result; remove it"
    assert judge_declaration(pair, *ran(pair)) == ([note], [], 0)


ROUNDING = Contract(lowest="rounding", reason=FINDING)


def proved(point: Point) -> dict[str, Any]:
    return {"verdict": "proved", "evidence": "both sides only move data", "required": "rounding"}


def test_a_contract_can_be_tightened_where_everything_is_proved() -> None:
    pair = pair_with(contracts=(dataclasses.replace(ROUNDING, dtype="bfloat16"),))
    planned, results = ran(pair, leaf=proved)
    count = sum(result.place.dtype == "bfloat16" for result in results)
    begin = (
        f"norm: the contract (dtype=bfloat16) accepts rounding, and all {count} results that it covers are proved or "
        "better, on every machine; "
    )
    advice = "it can be tightened to 'proved'"
    assert judge_declaration(pair, planned, results) == ([f"{begin}if --full agrees, {advice}"], [], 0)
    planned, results = ran(pair, Request(full=True), proved)
    assert judge_declaration(pair, planned, results).notes[0].endswith(f"on every machine; {advice}")


def test_one_rounded_result_is_reason_enough_for_a_contract() -> None:
    pair = pair_with(contracts=(dataclasses.replace(ROUNDING, dtype="bfloat16"),))
    planned, results = ran(pair, leaf=proved)
    place = next(place for place, result in enumerate(results) if result.place.dtype == "bfloat16")
    results[place] = result(**{**where(planned.points[place]), "verdict": "rounding", "required": "rounding"})
    assert judge_declaration(pair, planned, results) == NOTHING


def totals(x: Any, *, factor: float = 2.0) -> Any:
    return x.sum(1)


def square(x: Any, *, factor: float = 2.0) -> Any:
    return x * x


def small_integers(rng: Any, shape: Any) -> Any:
    return rng.integers(-8, 9, shape).astype(float)


def advised(pair: Pair) -> DeclarationAudit:
    """What is said of a toy pair whose results are all above its contract."""
    pair = dataclasses.replace(pair, meshes=("data2",), gradients=False, contracts=(ROUNDING,))
    results = run(pair)
    assert {"bitwise"} <= {one.ruling.verdict for one in results} <= {"bitwise", "proved"}, (
        "nothing is planted: the sides have other bits here"
    )
    return judge_declaration(pair, plan(pair, Request(full=True), 8), results)


def test_bits_that_were_only_seen_equal_are_no_reason_to_tighten() -> None:
    """Following the advice would run into the audit, for another machine may add up in another order."""
    declared = toy(totals, again=lambda x, *, factor=2.0: totals(x))
    assert advised(declared) == DeclarationAudit([], [], only_seen=1)
    followed = dataclasses.replace(declared, meshes=("data2",), gradients=False, contracts=(Contract(),))
    assert len(machine_dependent(followed, run(followed))) == 1


@pytest.mark.parametrize("values", [None, small_integers], ids=["one operation", "exact sums"])
def test_bits_that_no_machine_can_have_otherwise_are(values: Any) -> None:
    exact = (totals, lambda x, *, factor=2.0: totals(x[:, ::-1]))
    reference, variant = (square, lambda x, *, factor=2.0: -x * -x) if values is None else exact
    arg = Arg(shape=("rows", "columns"), spec=("data",), **({} if values is None else {"values": values}))
    declared = dataclasses.replace(toy(reference, again=variant), args={"x": arg})
    notes, problems, only_seen = advised(declared)
    assert (problems, only_seen) == ([], 0)
    assert notes == [
        "toy: the contract (every result) accepts rounding, and all 2 results that it covers are bitwise or better, "
        "on every machine; it can be tightened to 'bitwise'"
    ]
    followed = dataclasses.replace(declared, meshes=("data2",), gradients=False, contracts=(Contract(),))
    assert machine_dependent(followed, run(followed)) == []


def test_what_was_only_seen_is_said_once() -> None:
    assert only_seen_note(0) == []
    (one,), (many,) = only_seen_note(1), only_seen_note(3)
    assert one.startswith("1 contract covers only results with equal bits here, which another machine may have")
    assert many.startswith("3 contracts cover ") and "`samebits accept --verdicts` records them" in many
