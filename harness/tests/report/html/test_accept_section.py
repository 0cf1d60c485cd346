"""The section of accepted verdicts."""

from __future__ import annotations

from samebits.audit.snapshots.accept import AcceptedVerdicts
from samebits.report.html.table_sections import accept_section
from samebits.report.snapshots import AcceptDocument
from samebits.schema.result import Problem
from tests.support.documents import ENVIRONMENT
from tests.support.evidence_documents import PROBLEM
from tests.support.hostile import require_escaped

SAME = AcceptedVerdicts(pair="rope", path="rope.json", change="unchanged", equal=4, lost=0, gained=0)
NEW = AcceptedVerdicts(pair="norm", path="norm.json", change="changed", equal=6, lost=2, gained=1)


def accepted(*rows: AcceptedVerdicts, problems: tuple[Problem, ...] = ()) -> AcceptDocument:
    return AcceptDocument(environment=ENVIRONMENT, results=rows, problems=problems)


def test_nothing_of_a_document_is_markup() -> None:
    require_escaped(accepted(SAME, NEW, problems=(PROBLEM,)))


def test_what_was_written_and_lost_is_counted() -> None:
    section = accept_section(accepted(SAME, NEW))
    assert (section.state, section.next_command) == ("passed", None)
    assert section.headline == (
        "2 pairs: 1 snapshot written, 10 results beyond the contract; 2 results no longer equal"
    )
    assert section.body.index("norm.json") < section.body.index("rope.json"), "what changed comes first"


def test_a_pair_that_fails_is_the_headline() -> None:
    failing = Problem(pair="norm", message="a result fails", exit_code=1)
    section = accept_section(accepted(SAME, problems=(PROBLEM, failing)))
    assert section.state == "failed"
    assert section.headline == "2 pairs not accepted; first broken: its file does not import"
    assert accept_section(accepted(problems=(PROBLEM,))).state == "incomplete"
