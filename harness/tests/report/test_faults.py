"""The page of planted faults: what no check caught first, with the command that plants it again."""

from dataclasses import replace

import pytest

from samebits.report.faults import FaultTable
from samebits.report.html.sections import section_of
from samebits.report.markdown import LINES as MARKDOWN_LINES
from samebits.report.terminal import LINES, height
from tests.support.evidence_documents import PROBLEM, fault
from tests.support.pages import markdown, screen


def table(*rows: object, planned: int | None = None) -> FaultTable:
    return FaultTable(results=rows, planned=len(rows) if planned is None else planned)  # type: ignore[arg-type]


def missed(name: str, side: str = "multiply"):  # type: ignore[no-untyped-def]
    return fault(fault=name, side=side, caught=False, failed=0, said="data2 forward out: bitwise")


CRASHED = fault(fault="crash", caught=False, error="the process ended with SIGSEGV")


@pytest.mark.parametrize("sides", [1, 30])
def test_it_fits_on_a_screen(sides: int) -> None:
    rows = [missed(f"fault {n}", f"side{n % sides}") for n in range(60)] + [
        fault(fault=f"caught {n}") for n in range(60)
    ]
    lines = screen(table(*rows))
    assert sum(height(line, 120) for line in lines) <= LINES
    assert lines[-1] == "next: samebits audit faults norm --fault 'fault 0'"
    assert "--verbose prints every fault with what the check says" in lines


def test_many_faults_take_sixty_lines_at_most() -> None:
    rows = [fault(fault=f"f{n}", side=f"s{n % 20}", caught=n % 2 == 0) for n in range(120)]
    text = markdown(replace(table(*rows), problems=(PROBLEM,)))
    assert len(text.splitlines()) <= MARKDOWN_LINES
    assert text.startswith("### samebits audit faults: failed\n")
    assert "<details><summary>5 more groups</summary>" in text
    assert "| missed | norm/s1 | f1 |" in text


def test_faults_of_one_side_are_one_group() -> None:
    groups = table(CRASHED, missed("a"), fault(fault="both", honest=False), missed("b"), fault()).page().failing
    assert [group.title for group in groups] == [
        "norm/multiply: 2 of 5 planted faults: not caught",
        "norm/multiply: 1 of 5 planted faults: caught, and the honest form fails too",
        "norm/multiply: 1 of 5 planted faults: no answer",
    ]
    assert groups[0].where == "a, b"


def test_a_missed_fault_is_the_headline_and_comes_first() -> None:
    document = table(fault(), missed("mean over n - 1"))
    section, lines = section_of(document), screen(document)
    assert section.page.headline == (
        "norm/multiply: 1 of 2 planted faults: not caught; first mean over n - 1: data2 forward out: bitwise; the "
        "check does not see this class of difference here: a case, a mesh or a direction is missing; expected different"
    )
    assert section.page.next == "samebits audit faults norm --fault 'mean over n - 1'"
    assert section.body.index("mean over n - 1") < section.body.index("epsilon dropped")
    assert "  2/2  MISSED  norm/multiply: mean over n - 1" in lines
    assert lines[-1] == f"next: {section.page.next}"
    shown = screen(document, verbose=True, live=True)  # its rows were shown before
    assert shown[0] == "FAILED  norm/multiply: 1 of 2 planted faults: not caught"


@pytest.mark.parametrize(
    ("document", "state"),
    [
        (table(fault(), fault(pair="rope")), "passed"),
        (table(fault(), planned=0), "passed"),  # as in a document of an older version
        (table(fault(), missed("a")), "failed"),
        (table(fault(honest=False)), "failed"),
        (table(fault(), CRASHED), "incomplete"),
        (table(fault(), planned=3), "incomplete"),
        (table(), "incomplete"),
    ],
)
def test_the_states(document: FaultTable, state: str) -> None:
    assert document.page().state == state
    assert markdown(document).startswith(f"### samebits audit faults: {state}\n")
    assert document.page().closing.endswith("2 were not tried") == (document.planned == 3)


def test_pairs_are_counted_where_there_are_several() -> None:
    assert "Faults by pair" in section_of(table(fault(), fault(pair="rope"))).body
    assert "Faults by pair" not in section_of(table(fault())).body


def test_a_check_without_results_counts_none() -> None:
    """A broken checker stops before anything runs."""
    document = table(fault(fault="comparator broken", expected="CheckerBroken", failed=1, results=0))
    assert "of 0" not in markdown(document) and '<td class="number"></td>' in section_of(document).body
