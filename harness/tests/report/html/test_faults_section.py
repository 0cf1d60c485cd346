"""The section of planted faults: what no check caught first."""

from __future__ import annotations

from dataclasses import replace

from samebits.report.faults import FaultTable
from samebits.report.html.sections import section_of
from tests.support.evidence_documents import PROBLEM, fault
from tests.support.hostile import require_escaped

MISSED = fault(fault="mean over n - 1", caught=False, failed=0, said="data2 forward out: bitwise")


def test_nothing_of_a_document_is_markup() -> None:
    crashed = fault(fault="crash", caught=False, honest=False, error="the process ended with SIGSEGV")
    require_escaped(FaultTable(results=(fault(), MISSED, crashed), problems=(PROBLEM,), planned=3))


def test_a_missed_fault_is_the_headline() -> None:
    section = section_of(FaultTable(results=(fault(), MISSED), planned=2))
    assert section.state == "failed"
    assert section.headline == (
        "1 of 2 planted faults not caught; first norm/multiply: mean over n - 1 (expected different): "
        "data2 forward out: bitwise"
    )
    assert section.next_command == "samebits audit faults norm --fault 'mean over n - 1'"
    assert section.body.index("mean over n - 1") < section.body.index("epsilon dropped")


def test_an_honest_side_that_fails_is_a_failure() -> None:
    section = section_of(FaultTable(results=(fault(honest=False),), planned=1))
    assert section.state == "failed"
    assert section.headline.startswith("1 of 1 planted faults with a failing honest implementation")


def test_what_did_not_end_is_incomplete() -> None:
    crashed = fault(caught=False, honest=False, error="the process ended")
    assert section_of(FaultTable(results=(fault(), crashed), planned=2)).state == "incomplete"
    cut = section_of(FaultTable(results=(fault(),), planned=3))
    assert (cut.state, cut.headline.endswith("2 were not tried")) == ("incomplete", True)
    assert section_of(FaultTable(results=())).state == "incomplete"


def test_faults_that_are_caught_have_passed() -> None:
    table = FaultTable(results=(fault(), fault(pair="rope")), planned=2)
    section = section_of(table)
    assert (section.state, section.next_command) == ("passed", None)
    assert "Faults by pair" in section.body
    assert section_of(replace(table, planned=0)).state == "passed", "as in a document of an older version"


def test_a_check_without_results_counts_none() -> None:
    """A broken checker stops before anything runs."""
    broken = fault(fault="comparator broken", expected="CheckerBroken", failed=1, results=0)
    body = section_of(FaultTable(results=(broken,), planned=1)).body
    assert "of 0" not in body and '<td class="number"></td>' in body
