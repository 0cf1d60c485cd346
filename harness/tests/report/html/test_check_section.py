"""The section of a check: what it says first, and what it hands to its script."""

from __future__ import annotations

from samebits.report.html.check_section import check_section
from samebits.report.html.columns import columns
from samebits.report.html.sections import section_of
from tests.support.documents import document, result


def test_a_failure_is_named_with_its_place_and_command() -> None:
    bad = result(verdict="different", ok=False, mesh="data4", mismatches=3, replay="samebits check norm --mesh data4")
    section = check_section(document(result(), bad))
    assert section.state == "failed"
    assert section.headline == (
        "1 of 2 results fails: norm/multiply: 1 of 2 results: different (small; bfloat16; data4; forward); "
        "other values, and no line is named"
    )
    assert section.next_command == "samebits check norm --mesh data4"


def test_a_check_that_holds_has_nothing_to_run_next() -> None:
    section = section_of(document(result()))
    assert (section.state, section.next_command) == ("passed", None)


def test_columns_hold_each_distinct_value_once() -> None:
    made = columns([result(mesh="data2"), result(mesh="data4"), result(mesh="data2")], left_out=("replay",))
    assert made["count"] == 3
    fields = made["fields"]
    assert isinstance(fields, dict)
    assert [bytes(value) for value in fields["mesh"]["values"]] == [b'"data2"', b'"data4"']
    assert fields["mesh"]["index"] == [0, 1, 0]
    assert "index" not in fields["pair"]
    assert "replay" not in fields
