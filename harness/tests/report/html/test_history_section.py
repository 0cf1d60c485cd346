"""The page of a history: a column per document, a sign per verdict, and what moved each result."""

from __future__ import annotations

from dataclasses import replace

from samebits.report.changes.history import history_of
from samebits.report.html.history_section import Cell, cells, history_section
from samebits.report.html.sections import page_of, section_of
from tests.report.changes.test_history import LOWER, NEWER, night
from tests.support.documents import result

EVIL = "<script>alert(1)</script>"


def test_the_headline_is_the_latest_change_for_the_worse() -> None:
    section = history_section(history_of("nights", [night(1), night(2), night(3, LOWER, here=NEWER)]))
    assert section.headline == (
        "lower now, and its contract holds: norm/multiply, out: bitwise -> rounding at document 3: jax 0.10.2 -> 0.12.0"
    )
    assert section.state == "passed"


def test_every_verdict_has_a_sign_and_a_word() -> None:
    broken = result(verdict="different", ok=False)
    history = history_of("nights", [night(1), night(2, result(leaf="b")), night(3, broken)])
    (row,) = history.results[0].results
    assert cells(row) == [
        Cell("bitwise", "=", False, False),
        Cell(None, "", False, False),
        Cell("different", "≠", True, True),
    ]
    body = history_section(history).body
    assert '<span aria-hidden="true">≠</span><span class="unseen">different</span>' in body
    assert body.count('<th scope="col" class="point"') == 3


def test_a_newest_document_that_fails() -> None:
    broken = result(verdict="different", ok=False)
    section = history_section(history_of("nights", [night(1), night(2, LOWER), night(3, broken)]))
    assert section.state == "failed"
    assert section.headline.startswith(
        "fails now: norm/multiply, out: rounding -> different at document 3: nothing else"
    )
    fixed = history_section(history_of("nights", [night(1), night(2, broken), night(3)]))
    assert fixed.state == "passed" and fixed.headline.endswith("1 result changed, 0 never")


def test_skipped_files_make_it_incomplete() -> None:
    section = history_section(history_of("nights", [night(1), night(2)], skipped=[f"x.json: {EVIL}"]))
    assert section.state == "incomplete"
    assert "skipped: x.json: &lt;script&gt;" in section.body


def test_names_are_text() -> None:
    rows = [result(pair=EVIL, case=EVIL, leaf=EVIL), result(pair=EVIL, case=EVIL, leaf=EVIL, verdict="rounding")]
    nights = [replace(night(day, row), file=EVIL) for day, row in enumerate(rows, 1)]
    page = page_of([section_of(history_of(EVIL, nights))])
    assert EVIL not in page and "&lt;script&gt;" in page


def test_a_newest_document_that_always_failed_is_no_good_news() -> None:
    broken = result(verdict="different", ok=False)
    section = history_section(history_of("nights", [night(1, broken), night(2, broken)]))
    assert section.state == "failed" and section.headline.endswith("; 1 result of the newest fails")


def test_what_is_not_in_the_newest_document_does_not_fail_now() -> None:
    broken, other = result(verdict="different", ok=False), result(leaf="b")
    section = history_section(history_of("nights", [night(1), night(2, broken), night(3, other)]))
    assert section.state == "passed"
    assert section.headline.startswith("failed in the last document that has it: norm/multiply, out")
