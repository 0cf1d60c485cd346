"""The comparison as Markdown: what is worse first, the rest folded, and never more than 60 lines."""

from __future__ import annotations

from dataclasses import replace

import pytest

from samebits.report.changes.diff import compare_documents
from samebits.report.changes.diff_records import DiffDocument
from samebits.report.changes.diff_text import LINES, WORST, diff_markdown
from samebits.report.document import read_as
from samebits.schema.result import Problem
from tests.support.documents import ENVIRONMENT, different, document, result
from tests.support.findings import changed
from tests.support.invoke import REPOSITORY


def test_words() -> None:
    old = (result(), result(leaf="same", bits="aa"))
    new = (result(verdict="rounding"), result(leaf="same", bits="bb"), different())
    text = diff_markdown(compare_documents(document(*old), document(*new)))
    assert text.startswith("### samebits diff: worse\n\n2 results compared: new failure 1, fell 1,")
    where = "case small, bfloat16, mesh data2 (auto)"
    assert f"| new failure | norm/multiply | out\\['rows'\\] | {where} | none -\\> different |" in text
    assert f"| fell | norm/multiply | out | {where} | bitwise -\\> rounding |" in text
    assert "```\nsamebits check norm --variant multiply\n```" in text
    folded = text[text.index("<details>") :]
    assert "| other bits | norm | same | case small, bfloat16 | aa -\\> bb |" in folded
    assert "new failure" not in folded


def test_no_change_has_no_fold() -> None:
    text = diff_markdown(compare_documents(document(result()), document(result())))
    assert text.startswith("### samebits diff: held") and "<details>" not in text


def test_held_is_said_where_nothing_fails() -> None:
    failing = compare_documents(document(different()), document(different()))
    assert diff_markdown(failing).startswith("### samebits diff: no worse; 1 still fails\n")
    known = (Problem(pair="a", message="old"), Problem(pair="b", message="old"))
    wrong = compare_documents(document(result(), problems=known), document(result(), problems=known))
    assert diff_markdown(wrong).startswith("### samebits diff: no worse; 2 still fail\n")
    assert "2 known problems; nothing is worse" in diff_markdown(wrong)


@pytest.mark.parametrize("count", [1, WORST, WORST + 1, 40, 500])
def test_at_most_sixty_lines(count: int) -> None:
    newer = replace(ENVIRONMENT, versions={**ENVIRONMENT.versions, "jax": "0.12.0"})
    old = [result(pair=f"p{number}", bits="1", seconds=1.0) for number in range(count)]
    new = [
        changed(row, verdict="different", ok=False, required="rounding", bits="2", seconds=9.0, case="small")
        for row in old
    ]
    problems = tuple(Problem(pair=f"p{number}", message="new") for number in range(count))
    branch = replace(document(*new, problems=problems), environment=newer)
    text = diff_markdown(compare_documents(document(*old), branch))
    lines = text.splitlines()
    assert len(lines) <= LINES
    worst = lines[: lines.index("<details>")]
    assert sum(line.startswith("| new failure") for line in worst) == min(count, WORST)
    assert lines[-1] == "</details>"
    if count > 40:
        assert any(line.endswith("more groups; `--html FILE` and `--json FILE` write all of them.") for line in lines)


def test_the_page_of_toolchains_is_what_the_tool_writes() -> None:
    findings = REPOSITORY / "docs" / "findings"
    page = (findings / "toolchains.md").read_text(encoding="utf-8")
    found = read_as(findings / "toolchains.json", DiffDocument)
    assert page.endswith(f"\n\n{diff_markdown(found)}")
    assert {frozenset((row.before, row.after)) for row in found.results} == {frozenset(("bitwise", "rounding"))}
    assert [change.before for change in found.environments if change.name == "jax"] == ["0.10.2"]
    assert [head.written.dirty for head in (found.old, found.new) if head and head.written] == [False, False]
    edited = replace(found, results=found.results[1:])
    assert not page.endswith(diff_markdown(edited)), "a page that is not of this document is found"


def test_what_a_user_wrote_is_no_markup() -> None:
    evil = "<script>alert(1)</script>|[x](y)"
    text = diff_markdown(compare_documents(document(result()), document(result(), different(case=evil, reason=evil))))
    assert "<script>" not in text.replace("\\<script\\>", "")
