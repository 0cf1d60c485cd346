"""Markdown for pull requests: at most 60 lines whatever the number of failures, the worst of them in sight."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from samebits.report.document import Document, PairHead
from samebits.report.failing import LONGEST, WORST
from samebits.report.markdown import markdown
from samebits.report.markdown_fit import LINES
from samebits.schema.finding import Finding
from samebits.schema.result import Problem
from tests.support.documents import different, document, result

ERRORS = [
    result(pair=f"p{n}", verdict="error", ok=False, leaf="*", reason=f"raised Error{'x' * n}: no kernel")
    for n in range(40)
]
ROUNDING: list[Finding] = [
    result(
        pair=f"p{n}", verdict="rounding", required="rounding", mismatches=3, reason=f"summed {n} times", leaf=f"l{n}"
    )
    for n in range(40)
]


def of_pairs(*results: Finding, **more: Any) -> Document:
    heads = tuple(
        PairHead(pair=pair, reference="einsum", variants=("multiply",), selected=1, product=1)
        for pair in dict.fromkeys(result.place.pair for result in results)
    )
    return replace(document(*results, **more), pairs=heads)


@pytest.mark.parametrize("count", [0, 1, 2, 17, 500])
def test_at_most_sixty_lines(count: int) -> None:
    failing = [different(case=f"c{n}", pair=f"q{n % 30}", variant=f"v{n % 7}") for n in range(count)]
    problems = tuple(Problem(pair=f"x{n}", message="lacks a twin") for n in range(count))
    text = markdown(
        of_pairs(*failing, *ERRORS, *ROUNDING, problems=problems, notes=tuple(f"note {n}" for n in range(90)))
    )
    assert text.count("\n") <= LINES
    assert text.startswith("### samebits check: failed\n")
    assert len(re.findall(r"^\d\. \*\*", text, re.MULTILINE)) == WORST
    assert "<details><summary>" in text and text.count("<details>") == text.count("</details>")


def test_few_results_are_not_folded() -> None:
    assert "<details>" not in markdown(document(result(variant="einsum"), result(), different()))


def test_the_other_causes_are_folded_and_counted() -> None:
    text = markdown(of_pairs(*ERRORS[:8]))
    assert "#### Failures: 8 results, 8 causes" in text
    assert text.count("\n   - where: ") == text.count("; smallest: case ") == WORST
    folded = text[text.index("<details><summary>3 more causes</summary>") : text.index("</details>")]
    assert folded.count("\n- **") == 3


def test_rows_of_sides_that_fail_are_kept() -> None:
    holding = [result(pair=f"p{n}") for n in range(80)]
    text = markdown(of_pairs(*holding, different(pair="last"), result(pair="very_last")))
    assert "| last | multiply | different 1 |" in text and "| very_last |" not in text
    assert text.count("\n") <= LINES


def test_a_long_text_is_cut_and_names_are_plain() -> None:
    text = markdown(
        of_pairs(*[different(evidence="<script>" + "y" * 9999, case=case, pair="a_*b*") for case in ("a", "b")])
    )
    assert "\\<script\\>y" in text and "a_\\*b\\*/multiply" in text
    assert max(len(line) for line in text.splitlines()) < 3 * LONGEST
