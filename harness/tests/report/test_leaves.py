"""The table of leaves that a comparison of functions shows."""

from __future__ import annotations

from dataclasses import replace

from samebits.report.leaves import LONGEST, leaf_rows, text
from samebits.schema.line_difference import LineDifference
from tests.support.documents import toy_result

LEAF = toy_result(
    variant="v",
    case="call",
    direction="forward",
    leaf="out",
    verdict="different",
    required="rounding",
    ok=False,
    evidence="not the same mathematics",
)


def test_long_evidence_is_cut_in_the_table_alone() -> None:
    rows = leaf_rows([replace(LEAF, evidence="x" * 500)], "r")
    assert "x" * 500 in rows[0].evidence
    assert len(text("", rows).splitlines()[1]) < LONGEST + 40


def test_the_line_of_the_cause_comes_first() -> None:
    line = LineDifference(
        change="other", variant="fns.py:3", variant_code="x * s", reference="ref.py:7", reference_code="x * s * 2"
    )
    (row,) = leaf_rows([replace(LEAF, lines=(line,))], "r")
    assert row.evidence == f"required rounding; {line}; not the same mathematics"
    assert "fns.py:3" in row.evidence


def test_what_fails_says_what_was_required() -> None:
    (row,) = leaf_rows([LEAF], "r")
    assert row.evidence == "required rounding; not the same mathematics"
