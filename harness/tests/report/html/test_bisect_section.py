"""The section of a bisection: the cause, its witness and every point that was tried."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from samebits.bisect.search.trials import Finding
from samebits.report.bisect import BisectDocument
from samebits.report.document import to_json
from samebits.report.html.bisect_section import bisect_section
from tests.support.evidence_documents import (
    bisected,
    commit_search,
    nothing_fails,
    set_search,
    size_search,
    tensor_search,
)
from tests.support.hostile import require_escaped

FINDINGS = (commit_search(), set_search(), size_search(), tensor_search())


@pytest.mark.parametrize("finding", FINDINGS, ids=[finding.what for finding in FINDINGS])
def test_nothing_of_a_document_is_markup(finding: Finding) -> None:
    require_escaped(bisected(finding))


@pytest.mark.parametrize("finding", FINDINGS, ids=[finding.what for finding in FINDINGS])
def test_a_document_from_a_file_is_the_same_page(finding: Finding) -> None:
    document = bisected(finding)
    read = msgspec.json.decode(to_json(document), type=BisectDocument)
    assert bisect_section(read) == bisect_section(document)


def test_the_cause_is_the_headline() -> None:
    finding = commit_search()
    section = bisect_section(bisected(finding))
    assert (section.state, section.title) == ("failed", "bisect commits")
    assert section.headline == "commit 000000000009 'change 9' introduced it"
    assert section.next_command == "samebits bisect commits --good a --bad b -- check norm"
    assert section.body.count('class="badge o-') == len(finding.trials)
    assert '<span class="added">+    return x[::-1]' in section.body
    assert '<span class="removed">-    return x\n' in section.body
    assert "<span>--- a/norm.py" in section.body, "the head of a patch is no removed line"
    assert "change 6: does not import" in section.body
    assert "1 of 12" in section.body, "what is left after the last point"


def test_nothing_to_search_for_has_passed() -> None:
    section = bisect_section(bisected(nothing_fails()))
    assert (section.state, section.next_command, section.charts) == ("passed", None, {})
    assert "Points, in the order tried" not in section.body


def test_what_cannot_be_told_is_incomplete() -> None:
    finding = replace(commit_search(), found=False)
    section = bisect_section(bisected(finding))
    assert section.state == "incomplete"
    assert "dashed line is the cause" not in section.body


def test_the_first_value_that_differs_is_marked() -> None:
    section = bisect_section(bisected(tensor_search()))
    assert section.body.count("✗ first that differs") == 1
    assert "the reference's twin at reference_impls/norm.py:3" in str(section.body).replace("&#39;", "'")
    assert "left after it" not in section.body, "nothing was narrowed"


def test_what_a_search_writes_besides_is_shown_as_it_is() -> None:
    odd = {"lines": [{"change": "unheard of"}, 3], "tensors": ["x", {"first": True}], "culprit": "abc", "diff": None}
    section = bisect_section(bisected(replace(tensor_search(), detail=odd)))
    assert "change: unheard of" in section.body


def test_the_search_over_inputs_is_counted() -> None:
    section = bisect_section(bisected(size_search()))
    assert "1 of 4 are left, 19 inputs tried" in section.body
