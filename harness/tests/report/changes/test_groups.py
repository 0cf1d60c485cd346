"""One cause is one group, figures are such as a person reads, and no group hides a result."""

from dataclasses import replace

import pytest

from samebits.report.changes.diff import compare_documents
from samebits.report.changes.diff_document import amount, conditions, grouped
from samebits.schema.finding import Place
from tests.support.documents import document, result
from tests.support.findings import changed


def test_each_result_is_in_one_group() -> None:
    old = [result(mesh=f"data{size}", leaf=leaf, seconds=1.0) for size in (2, 4) for leaf in "ab"]
    new = [changed(row, verdict="different", ok=False, seconds=9.0) for row in old]
    found = compare_documents(document(*old), document(*new, result(pair="new")))
    groups = grouped(found.results)
    assert [(group.kind, len(group.rows), group.first.fails) for group in groups] == [
        ("new failure", 4, True),
        ("added", 1, False),
        ("slower", 2, False),
    ]
    assert groups[-1].change == "2.0 s -> 18.0 s (9x)"
    first = groups[0]
    assert (first.what, first.where) == ("a, b", "4 results: case small, bfloat16, data2/4")
    assert first.members[-1] == "case small, bfloat16, mesh data4 (auto), b"


def test_what_fails_stands_before_what_does_not() -> None:
    agreed = result(verdict="rounding", reason="agreed", leaf="agreed")
    old = [result(leaf="agreed"), result(leaf="fell"), result(leaf="gone")]
    new = [agreed, result(leaf="fell", verdict="rounding")]
    groups = grouped(compare_documents(document(*old), document(*new)).results)
    kinds = [group.kind for group in groups]
    assert kinds == ["fell", "fell, as declared", "no longer compared", "contract"]


def test_many_are_counted_and_few_are_named() -> None:
    rows = [replace(result().place, case=name) for name in "abcd"]
    assert conditions(rows) == "4 results: 4 cases, bfloat16, data2"
    assert conditions(rows[:2]) == "2 results: cases a b, bfloat16, data2"
    assert conditions([Place(item="x"), Place(item="y")]) == "2 results"


@pytest.mark.parametrize(
    ("figure", "value", "text"),
    [("seconds", 1.234, "1.2 s"), ("temp_bytes", 1_234_567_890.0, "1,234.6 MB"), ("flops", 1.5e12, "1.5e+12")],
)
def test_amounts(figure: str, value: float, text: str) -> None:
    assert amount(figure, value) == text
