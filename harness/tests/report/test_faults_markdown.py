"""Planted faults for a pull request: at most 60 lines, what was missed first."""

from __future__ import annotations

from samebits.report.faults import FaultTable
from samebits.report.markdown_fit import LINES
from tests.support.evidence_documents import PROBLEM, fault
from tests.support.pages import markdown


def test_many_faults_take_sixty_lines_at_most() -> None:
    rows = [fault(fault=f"f{n}", side=f"s{n % 20}", caught=n % 2 == 0) for n in range(120)]
    text = markdown(FaultTable(results=tuple(rows), problems=(PROBLEM,), planned=120))
    assert len(text.splitlines()) <= LINES
    assert text.startswith("### samebits audit faults: failed\n")
    assert "<details><summary>5 more groups</summary>" in text
    assert "| missed | norm/s1 | f1 |" in text


def test_the_states() -> None:
    assert markdown(FaultTable(results=(fault(),), planned=1)).startswith("### samebits audit faults: passed\n")
    assert markdown(FaultTable(results=(fault(),), planned=2)).startswith("### samebits audit faults: incomplete\n")
    honest = FaultTable(results=(fault(honest=False),), planned=1)
    assert markdown(honest).startswith("### samebits audit faults: failed\n")


def test_a_check_without_results_counts_none() -> None:
    broken = fault(fault="comparator broken", expected="CheckerBroken", failed=1, results=0)
    assert "1 of 0" not in markdown(FaultTable(results=(broken,), planned=1))
