"""The page of a comparison: what is worse first, groups and not rows, and the same as the exit code."""

from dataclasses import replace
from typing import Any

import pytest

from samebits.host.written import Written
from samebits.report.changes.diff import DocumentRows, compare_documents
from samebits.report.changes.diff_document import (
    FEW,
    GROUPS,
    DiffDocument,
    amount,
    conditions,
    diff_outcomes,
    environment_changes,
    environment_sentence,
    grouped,
)
from samebits.report.declaration_lines import DeclarationLines
from samebits.report.document import read_as
from samebits.report.html.sections import page_of, section_of
from samebits.report.markdown import LINES, WORST
from samebits.report.terminal import LINES as SCREEN
from samebits.schema.finding import Place
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


# --- groups ----------------------------------------------------------------------------------------------------------


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


# --- places ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "side", "what", "where"),
    [
        (
            result().place,
            "norm/multiply",
            "out",
            "case small, bfloat16, mesh data2 (auto)",
        ),
        (Place(pair="p", variant="v", direction="gradient", leaf="x"), "p/v", "gradient of x", ""),
        (Place(pair="p", direction="gradient", leaf="*"), "p", "gradient", ""),
        (
            Place(pair="p", direction="gradient", leaf="copies == 0", target="cpu"),
            "p",
            "gradient copies == 0",
            "cpu",
        ),
        (Place(item="train/context4"), "train/context4", "", ""),
    ],
)
def test_a_place_in_words(place: Place, side: str, what: str, where: str) -> None:
    assert (place.side(), place.what(), place.where()) == (side, what, where)


def test_leaves_share_the_time_of_their_point() -> None:
    rows, point = DocumentRows(), Place(pair="p", leaf="a")
    for leaf, seconds in (("a", 2.0), ("b", 2.0), ("c", None)):
        rows.add_seconds(Place(pair="p", leaf=leaf).whole, seconds)
    assert rows.seconds == {point.whole: 2.0}


# --- environments ----------------------------------------------------------------------------------------------------


def test_packages_flags_settings_and_processor_are_named() -> None:
    other = replace(
        ENVIRONMENT,
        versions={**ENVIRONMENT.versions, "jax": "0.12.0", "libtpu": "0.0.50", "samebits": "9"},
        instruction_sets=("avx2", "avx512f"),
        flags={"XLA_FLAGS": "--xla_a=1"},
        settings={"jax_enable_x64": "True"},
    )
    assert environment_sentence(environment_changes(ENVIRONMENT, other)) == (
        "jax 0.10.2 -> 0.12.0, libtpu none -> 0.0.50, instruction sets avx2 -> avx2/avx512f, "
        "XLA_FLAGS none -> --xla_a=1, jax_enable_x64 False -> True"
    )


def test_flax_and_optax_count_where_both_documents_know_them() -> None:
    """A model is made of them: a verdict may move with flax alone. A document of before has no versions of them."""
    old, new = (
        replace(ENVIRONMENT, versions={**ENVIRONMENT.versions, "flax": flax, "optax": "0.2.6"})
        for flax in ("0.11.0", "0.12.1")
    )
    assert environment_sentence(environment_changes(old, new)) == "flax 0.11.0 -> 0.12.1"
    assert environment_changes(ENVIRONMENT, new) == environment_changes(old, ENVIRONMENT) == ()
    gone = replace(new, versions={**new.versions, "optax": None})
    assert environment_sentence(environment_changes(new, gone)) == "optax 0.2.6 -> none"


def test_what_is_not_known_does_not_differ() -> None:
    assert environment_changes(None, ENVIRONMENT) == environment_changes(ENVIRONMENT, ENVIRONMENT) == ()
