"""The end of `samebits audit faults`: at most 40 lines, with the command that plants the first missed one again."""

from __future__ import annotations

import pytest

from samebits.report.faults import FaultTable, failing_faults
from samebits.report.screen import LINES, height
from tests.support.evidence_documents import fault
from tests.support.pages import screen


def table(*rows: object) -> FaultTable:
    return FaultTable(results=rows, planned=len(rows))  # type: ignore[arg-type]


def missed(name: str, side: str = "multiply"):  # type: ignore[no-untyped-def]
    return fault(fault=name, side=side, caught=False, failed=0, said="data2 forward out: bitwise")


@pytest.mark.parametrize("sides", [1, 30])
def test_it_fits_on_a_screen(sides: int) -> None:
    rows = [missed(f"fault {n}", f"side{n % sides}") for n in range(60)] + [
        fault(fault=f"caught {n}") for n in range(60)
    ]
    lines = screen(table(*rows))
    assert sum(height(line, 120) for line in lines) <= LINES
    assert lines[-1] == "next: samebits audit faults norm --fault 'fault 0'"
    assert "--verbose prints every fault with what the check says" in lines


def test_faults_of_one_side_are_one_group() -> None:
    crashed = fault(fault="crash", caught=False, error="the process ended with SIGSEGV")
    dishonest = fault(fault="both", honest=False)
    groups = failing_faults(table(crashed, missed("a"), dishonest, missed("b"), fault()))
    assert [group.title for group in groups] == [
        "norm/multiply: 2 of 5 planted faults not caught",
        "norm/multiply: 1 of 5 planted faults with a failing honest implementation",
        "norm/multiply: 1 of 5 planted faults unanswered",
    ]
    assert groups[0].where == "a; b"


def test_few_faults_are_all_shown() -> None:
    lines = screen(table(fault(), missed("mean over n - 1")))
    assert "  2/2  MISSED  norm/multiply: mean over n - 1" in lines
    assert lines[-1] == "next: samebits audit faults norm --fault 'mean over n - 1'"


def test_verbose_rows_were_shown_before() -> None:
    lines = screen(table(fault(), missed("x")), verbose=True, live=True)
    assert "  2/2  MISSED  norm/multiply: x" not in lines
    assert lines[0] == "FAILED  norm/multiply: 1 of 2 planted faults not caught"
