"""What a proof of a leaf says of its contract, and the exit code of `prove` over all leaves."""

from __future__ import annotations

from typing import Any

import pytest

from samebits.schema.proof import ProofResult, exit_code
from samebits.schema.result import Problem


def proof_result(**changes: Any) -> ProofResult:
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
    return ProofResult(**{**usual, **changes})


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
def test_what_fails_and_what_refutes(found: ProofResult, failed: bool, refutes: bool) -> None:
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
def test_exit_codes(found: list[ProofResult], problem: int, code: int) -> None:
    problems = [Problem(pair="norm", message="why", exit_code=problem)] if problem else []
    assert exit_code(found, problems) == code
    assert exit_code(found, problems, interrupted=True) == (code or 3)


def test_bounds_and_the_contract_are_added_to_a_copy() -> None:
    bounded = HELD.with_bounds(1e-6, 2e-6, 1e-7, "dot_general")
    assert (bounded.bound_reference, bounded.bound_optimized) == (1e-6, 2e-6)
    assert (bounded.likely, bounded.loses_most) == (1e-7, "dot_general")
    assert HELD.held(required="rounding").required == "rounding" and HELD.required == "bitwise"
