"""What a finding says of its contract, and the exit code of `prove` over all leaves."""

from typing import Any

import pytest

from samebits.schema.finding import Finding, at, exit_code, point_of
from samebits.schema.point import Point
from samebits.schema.result import Problem
from tests.support.findings import finding


def proof_result(**changes: Any) -> Finding:
    usual: dict[str, Any] = {
        "variant": "fast",
        "case": "small",
        "dtype": "float32",
        "mesh": "data1",
        "mode": "auto",
        "direction": "forward",
        "leaf": "out",
        "verdict": "proved",
        "required": "bitwise",
        "ok": True,
    }
    return finding("prove", **{**usual, **changes})


HELD = proof_result()
REFUTED = proof_result(verdict="different", ok=False)
UNDECIDED = proof_result(verdict="error", ok=False)


@pytest.mark.parametrize(
    ("found", "failed", "refutes"),
    [
        (HELD, False, False),
        (REFUTED, True, True),
        (UNDECIDED, True, False),
        (proof_result(verdict="rounding", ok=False), True, False),
        (proof_result(exempt=True, ok=False), True, True),
        (proof_result(exempt=True, ok=False, unkept=("finite=x",)), True, False),
    ],
    ids=["held", "different", "undecided", "below its contract", "exempt and equal", "exempt and equal on a domain"],
)
def test_what_fails_and_what_refutes(found: Finding, failed: bool, refutes: bool) -> None:
    assert (found.failed, found.refutes) == (failed, refutes)


@pytest.mark.parametrize(
    ("found", "problem", "code"),
    [
        ([HELD], 0, 0),
        ([HELD, REFUTED], 0, 1),
        ([UNDECIDED, REFUTED], 2, 1),
        ([HELD], 2, 2),
        ([HELD, UNDECIDED], 0, 3),
        ([HELD], 3, 3),
        ([], 0, 3),
    ],
)
def test_exit_codes(found: list[Finding], problem: int, code: int) -> None:
    problems = [Problem(pair="norm", message="why", exit_code=problem)] if problem else []
    assert exit_code(found, problems) == code
    assert exit_code(found, problems, interrupted=True) == (code or 3)


def test_groups_are_changed_in_a_copy() -> None:
    changed = HELD.with_ruling(required="rounding").with_proof(method="fields")
    assert (changed.ruling.required, changed.proof.method) == ("rounding", "fields")
    assert changed.place == HELD.place and (HELD.ruling.required, HELD.proof.method) == ("bitwise", None)


def test_a_point_is_the_point_of_its_place() -> None:
    point = Point(variant="fast", case="small", dtype="float32", mesh="data1", mode="explicit", direction="gradient")
    assert point_of(at("norm", point, "x")) == point
    assert at("norm", point, "x").what() == "gradient of x"
