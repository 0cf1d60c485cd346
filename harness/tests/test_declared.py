"""What is said of contracts and exemptions after a sweep, from plans and results made by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness.case import Arg, Case
from harness.contract import Contract, Exemption
from harness.declared import judge_declaration
from harness.domain import Domain
from harness.judgement import where
from harness.pair import Pair
from harness.point import Point
from harness.result import Result
from harness.selection import Plan, Request, plan
from harness.tests.documents import result

FINDING = "the first row is lost"


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
) -> tuple[Plan, list[Result]]:
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
    notes, problems = judge_declaration(pair, *ran(pair))
    assert notes == []
    assert [(p.pair, p.message, p.exit_code) for p in problems] == [
        ("norm", "pair 'norm': exemption (leaf=rows) matches no result; remove it", 2)
    ]


def test_an_exemption_of_a_point_that_this_selection_leaves_out_is_none() -> None:
    point = unplanned(pair_with())
    pair = pair_with(exemptions=(Exemption(reason=FINDING, **scope_of(point)),))
    assert judge_declaration(pair, *ran(pair)) == ([], [])
    assert judge_declaration(pair, *ran(pair, Request(full=True)))[1] == []


def test_but_it_is_where_the_case_is_known_to_have_no_such_leaf() -> None:
    point = unplanned(pair_with())
    pair = pair_with(exemptions=(Exemption(reason=FINDING, leaf="rows", **scope_of(point)),))
    assert len(judge_declaration(pair, *ran(pair))[1]) == 1
    assert len(judge_declaration(pair, *ran(pair, Request(full=True)))[1]) == 1


def test_an_exemption_of_a_mesh_that_does_not_fit_here_is_none() -> None:
    pair = pair_with(exemptions=(Exemption(mesh="data16", reason=FINDING),))
    assert judge_declaration(pair, *ran(pair, Request(full=True))) == ([], [])


@pytest.mark.parametrize("verdict", ["error", "skipped"])
def test_an_exemption_is_not_judged_where_points_gave_no_leaves(verdict: str) -> None:
    pair = pair_with(exemptions=(Exemption(leaf="rows", reason=FINDING),))

    def failing(point: Point) -> dict[str, Any]:
        return {"verdict": verdict, "ok": False, "leaf": "*"} if point.case == "c32" else {}

    assert judge_declaration(pair, *ran(pair, leaf=failing)) == ([], [])


def test_a_replica_of_a_leaf_is_covered_as_the_leaf_is() -> None:
    pair = pair_with(exemptions=(Exemption(leaf="out", reason=FINDING),))
    planned, results = ran(pair, leaf=lambda _: {"leaf": "out (replica on device 3)"})
    assert judge_declaration(pair, planned, results) == ([], [])


def test_nothing_is_said_of_a_filtered_sweep() -> None:
    pair = pair_with(exemptions=(Exemption(leaf="rows", reason=FINDING),))
    assert judge_declaration(pair, *ran(pair, Request(cases=("c16",)))) == ([], [])


def test_a_contract_that_governs_nothing_is_a_note() -> None:
    lower = Contract(lowest="rounding", reason=FINDING, dtype="bfloat16")
    pair = pair_with(contracts=(lower, Contract(domain=Domain(finite=("*",)))))
    note = "norm: the contract (dtype=bfloat16) covers no result; remove it"
    assert judge_declaration(pair, *ran(pair)) == ([note], [])


def test_a_contract_can_be_tightened_when_all_that_it_covers_came_out_higher() -> None:
    pair = pair_with(contracts=(Contract(lowest="rounding", reason=FINDING, dtype="bfloat16"),))
    planned, results = ran(pair)
    count = sum(result.dtype == "bfloat16" for result in results)
    begin = (
        f"norm: the contract (dtype=bfloat16) accepts rounding, and all {count} results that it covers are proved or "
        "bitwise; "
    )
    assert judge_declaration(pair, planned, results) == ([begin + "if --full agrees, it can be tightened"], [])
    planned, results = ran(pair, Request(full=True))
    assert judge_declaration(pair, planned, results)[0][0].endswith(
        "results that it covers are proved or bitwise; it can be tightened"
    )


def test_one_rounded_result_is_reason_enough_for_a_contract() -> None:
    pair = pair_with(contracts=(Contract(lowest="rounding", reason=FINDING, dtype="bfloat16"),))
    planned, results = ran(pair)
    place = next(place for place, result in enumerate(results) if result.dtype == "bfloat16")
    results[place] = result(**{**where(planned.points[place]), "verdict": "rounding", "required": "rounding"})
    assert judge_declaration(pair, planned, results) == ([], [])
