"""The page of a comparison: what is worse first, groups and not rows, and the same as the exit code."""

from dataclasses import replace
from typing import Any

import pytest

from samebits.host.written import Written
from samebits.report.changes.diff import compare_documents
from samebits.report.changes.diff_document import FEW, GROUPS, DiffDocument, diff_outcomes
from samebits.report.declaration_lines import DeclarationLines
from samebits.report.document import read_as
from samebits.report.html.sections import page_of, section_of
from samebits.report.markdown import LINES, WORST
from samebits.report.terminal import LINES as SCREEN
from samebits.schema.result import Problem
from tests.support.documents import ENVIRONMENT, different, document, result
from tests.support.findings import changed
from tests.support.invoke import REPOSITORY
from tests.support.pages import markdown, screen

BITWISE = result()
ROUNDING = result(verdict="rounding")
WHERE = "case small, bfloat16, mesh data2 (auto)"
NEWER = replace(ENVIRONMENT, versions={**ENVIRONMENT.versions, "jax": "0.12.0"}, instruction_sets=("avx2", "fma"))
EVIL = '<script>alert("x")</script>|[x](y)'


def test_what_is_worse_is_explained_and_has_a_command() -> None:
    found = compare_documents(document(BITWISE), document(ROUNDING, different()))
    lines, text = screen(found), markdown(found)
    first = lines.index("FAILED  new failure: norm/multiply, out['rows']: none -> different")
    assert lines[first + 1 : first + 4] == [
        f"  where     {WHERE}",
        "  example   out['rows'][1, 2]: reference=6.4375 (0x40ce), multiply=6.375 (0x40cc)",
        "  next      samebits check norm --variant multiply",
    ]
    assert "FAILED  fell: norm/multiply, out: bitwise -> rounding" in lines[first + 4 :]
    assert lines[-2:] == [
        "1 result compared: new failure 1, fell 1; 2 worse",
        "next: samebits check norm --variant multiply",
    ]
    assert text.startswith("### samebits diff: worse\n\n1 result compared: new failure 1, fell 1; 2 worse\n")
    assert "1. **new failure: norm/multiply, out\\['rows'\\]: none -\\> different**" in text


def test_one_cause_is_one_group() -> None:
    meshes = [f"data{size}" for size in (1, 2, 4, 8)]
    old = [result(mesh=mesh, case=case) for mesh in meshes for case in "ab"]
    found = compare_documents(document(*old), document(*(changed(row, verdict="different", ok=False) for row in old)))
    (group,) = found.page().failing
    assert group.where == "8 results: cases a b, bfloat16, data1/2/4/8"
    assert found.page().headline == (
        "new failure: norm/multiply, out: bitwise -> different (8 results: cases a b, bfloat16, data1/2/4/8)"
    )
    assert "case b, bfloat16, mesh data8 (auto), out" in section_of(found).body


def test_many_groups_are_one_screen_and_one_page() -> None:
    many = [result(pair=f"p{number}", required="rounding") for number in range(GROUPS + 5)]
    rounding = [changed(row, verdict="rounding") for row in many]
    found = compare_documents(document(*rounding), document(*many))
    lines = screen(found)
    assert sum(line.startswith("  rose  p") for line in lines) == FEW and len(lines) <= SCREEN
    assert f"  rose  {GROUPS + 5 - FEW} more groups" in lines
    assert "--html FILE and --json FILE write all of them" in lines
    for both in (found, compare_documents(document(*many), document(*rounding))):
        assert "5 more groups; --json FILE has all of them." in section_of(both).body


def test_the_head_names_documents_and_environments() -> None:
    old = replace(document(BITWISE), written=Written(time="2026-01-31T23:59:59Z", commit="a" * 40))
    found = compare_documents(old, replace(document(ROUNDING), environment=NEWER), files=("a.json", "b.json"))
    lines = [line.split(maxsplit=1) for line in screen(found)]
    assert lines[:2] == [
        ["check", "a.json (2026-01-31 23:59, commit aaaaaaaaaaaa) -> b.json"],
        ["environment", "jax 0.10.2 -> 0.12.0, instruction sets avx2 -> avx2/fma"],
    ]
    assert f"  fell, in another environment  norm/multiply, out: bitwise -> rounding; {WHERE}" in screen(found)


def test_contracts_bits_times_and_problems_have_lines() -> None:
    old = document(result(bits="11", seconds=1.0), different())
    new = document(
        result(bits="22", seconds=9.0, required="rounding", reason="agreed"),
        changed(different(), verdict="bitwise", ok=True),
        problems=(Problem(pair="b", message="new"),),
    )
    found = compare_documents(old, new)
    lines, text = screen(found), markdown(found)
    groups = [
        f"  contract  norm/multiply, out: bitwise -> rounding: agreed; {WHERE}",
        "  other bits  norm, out: 11 -> 22; case small, bfloat16",
        f"  fixed  norm/multiply, out['rows']: different -> bitwise; {WHERE}",
        f"  slower  norm/multiply: 1.0 s -> 9.0 s (9x); {WHERE}",
    ]
    first = lines.index("All changes: 4 groups")
    assert lines[first + 1 : first + 5] == groups
    assert "new problem: b: new" in lines and "- problem: b: new" in text
    assert "| other bits | norm | out | 11 -\\> 22 | case small, bfloat16 |" in text
    assert "contract 1, other bits 1, fixed 1, slower 1" in lines[-1]


def test_the_state_and_its_word() -> None:
    same = compare_documents(document(BITWISE), document(BITWISE))
    assert markdown(same).startswith("### samebits diff: held\n") and same.page().state == "passed"
    assert not any("time of what both have" in line for line in screen(same))
    assert screen(same)[-1] == "1 result compared: no change; nothing is worse"
    cut = compare_documents(document(BITWISE), document(BITWISE, interrupted=True))
    assert cut.page().state == "incomplete"
    failing = compare_documents(document(different()), document(different()))
    assert markdown(failing).startswith("### samebits diff: no worse; 1 still fails\n")
    known = (Problem(pair="a", message="old"), Problem(pair="b", message="old"))
    wrong = compare_documents(document(BITWISE, problems=known), document(BITWISE, problems=known))
    assert markdown(wrong).startswith("### samebits diff: no worse; 2 still fail\n")
    assert "2 known problems; nothing is worse" in markdown(wrong)


def test_a_declared_fall_is_called_so() -> None:
    found = compare_documents(document(BITWISE), document(changed(ROUNDING, reason="agreed")))
    assert any(line.startswith("  fell, as declared  norm/") for line in screen(found))


@pytest.mark.parametrize("count", [1, WORST + 1, 40, 500])
def test_at_most_sixty_lines(count: int) -> None:
    old = [result(pair=f"p{number}", bits="1", seconds=1.0) for number in range(count)]
    new = [
        changed(row, verdict="different", ok=False, required="rounding", bits="2", seconds=9.0, case="small")
        for row in old
    ]
    problems = tuple(Problem(pair=f"p{number}", message="new") for number in range(count))
    branch = replace(document(*new, problems=problems), environment=NEWER)
    found = compare_documents(document(*old), branch)
    lines = markdown(found).splitlines()
    assert len(lines) <= LINES and len(screen(found)) <= SCREEN
    assert "new problem: p0: new" in screen(found) and any("worse" in line for line in screen(found)[-2:])
    assert sum(". **new failure" in line for line in lines) == min(count, WORST)


def test_rows_fail_exactly_where_the_exit_code_does() -> None:
    same = result(leaf="same")
    pairs: tuple[tuple[Any, Any], ...] = (((BITWISE,), (ROUNDING,)), ((ROUNDING,), (BITWISE,)), ((), (different(),)))
    for base, branch in pairs:
        found = compare_documents(document(same, *base), document(same, *branch))
        outcomes = diff_outcomes(found, DeclarationLines(()))
        assert all(row.holds for row in outcomes.rows) == (found.exit_code == 0)


def test_names_are_text() -> None:
    rows = [different(pair=EVIL, variant=EVIL, case=EVIL, leaf=EVIL, mesh=EVIL, replay=EVIL, reason=EVIL)]
    found = compare_documents(
        document(BITWISE), document(BITWISE, *rows, problems=(Problem(pair="p", message=EVIL),)), files=(EVIL, EVIL)
    )
    page = page_of([section_of(found)])
    assert EVIL not in page and page.count("&lt;script&gt;") > 5
    text = markdown(compare_documents(document(BITWISE), document(BITWISE, different(case=EVIL, reason=EVIL))))
    assert "<script>" not in text.replace("\\<script\\>", "") and "\\[x\\]" in text


def test_the_page_of_toolchains_is_what_the_tool_writes() -> None:
    findings = REPOSITORY / "docs" / "findings"
    page = (findings / "toolchains.md").read_text(encoding="utf-8")
    found = read_as(findings / "toolchains.json", DiffDocument)
    assert page.endswith(f"\n\n{markdown(found)}")
    verdicts = {frozenset((row.before, row.after)) for row in found.results if row.change in ("fell", "rose")}
    assert verdicts == {frozenset(("bitwise", "rounding"))}
    assert [change.before for change in found.environments if change.name == "jax"] == ["0.10.2"]
    assert [head.written.dirty for head in (found.old, found.new) if head and head.written] == [False, False]
    edited = replace(found, results=found.results[1:])
    assert not page.endswith(markdown(edited)), "a page that is not of this document is found"
