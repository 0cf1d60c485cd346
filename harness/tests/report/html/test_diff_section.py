"""The page of a comparison: what is worse is in the banner and stands first; names are text, never markup."""

from __future__ import annotations

from dataclasses import replace

from samebits.report.changes.diff import compare_documents
from samebits.report.html.diff_section import GROUPS, diff_section
from samebits.report.html.sections import page_of, section_of
from samebits.schema.result import Problem
from tests.support.documents import ENVIRONMENT, different, document, result
from tests.support.findings import changed

EVIL = '<script>alert("x")</script>'


def test_the_banner_says_what_is_worse_and_what_to_run() -> None:
    old = [result(mesh=f"data{size}") for size in (2, 4)]
    new = [changed(row, verdict="different", ok=False) for row in old]
    section = diff_section(compare_documents(document(*old), document(*new)))
    assert section.state == "failed"
    assert section.headline == (
        "2 results are worse: norm/multiply, out: bitwise -> different (2 results: case small, bfloat16, data2/4)"
    )
    assert section.next_command == "samebits check norm --variant multiply"
    assert section.body.index("<h3>Worse") < section.body.index("case small, bfloat16, mesh data4 (auto), out")


def test_parts_stand_apart() -> None:
    newer = replace(ENVIRONMENT, versions={**ENVIRONMENT.versions, "jax": "0.12.0"})
    old = document(result(bits="11", seconds=1.0), different(), result(leaf="gone"))
    new = document(
        result(bits="22", seconds=9.0, required="rounding"),
        changed(different(), verdict="bitwise", ok=True),
        problems=(Problem(pair="p", message=EVIL),),
    )
    body = diff_section(compare_documents(old, replace(new, environment=newer))).body
    titles = ("Lower, missing or still failing", "Contracts", "Other bits", "Slower", "Better and new")
    places = [body.index(f"<h3>{title}") for title in titles]
    assert places == sorted(places) and "<h3>Worse" not in body
    assert "<td>jax</td><td>0.10.2</td><td>0.12.0</td>" in body
    assert "&lt;script&gt;" in body and EVIL not in body


def test_nothing_worse_has_passed() -> None:
    section = diff_section(compare_documents(document(result()), document(result())))
    assert (section.state, section.next_command) == ("passed", None)
    assert section.headline == "1 result compared: no change; nothing is worse"
    cut = document(result(), interrupted=True)
    assert diff_section(compare_documents(document(result()), cut)).state == "incomplete"


def test_names_are_text() -> None:
    rows = [different(pair=EVIL, variant=EVIL, case=EVIL, leaf=EVIL, mesh=EVIL, replay=EVIL, reason=EVIL)]
    found = compare_documents(document(result()), document(result(), *rows), files=(EVIL, EVIL))
    page = page_of([section_of(found)])
    assert EVIL not in page and page.count("&lt;script&gt;") > 5


def test_a_page_is_for_reading() -> None:
    many = [result(pair=f"p{number}") for number in range(GROUPS + 5)]
    found = compare_documents(document(*many), document(*(changed(row, verdict="rounding") for row in many)))
    body = diff_section(found).body
    assert body.count("<details class=") - body.count("folded-body") <= 1
    assert "5 more groups; --json FILE has all of them." in body
