"""A page: its sections in order, what it embeds, and its policy."""

import base64
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
from markupsafe import Markup

import samebits.report.html.sections
from samebits.report.html.sections import Section, html_page, prose, render, script_json, static
from samebits.report.page import Badge, Beside, Chart, CommandLine, Failing, Fold, Line, Lines, Page, Table, ValueList

_CHART = {"$schema": "https://vega.github.io/schema/vega-lite/v6.json", "mark": "bar"}


def section(source: str | None = None, **values: Any) -> Section:
    usual: dict[str, Any] = {"command": "check", "state": "passed", "closing": "all contracts hold"}
    return Section(page=Page(**{**usual, **values}), source=source)


def scripts(page: str) -> list[str]:
    return re.findall(r"<script>(.*?)</script>", page, flags=re.S)


def test_what_failed_comes_first() -> None:
    page = html_page([section(), section(state="incomplete"), section(state="failed")], "three")
    places = [page.index(f'class="banner is-{state}"') for state in ("failed", "incomplete", "passed")]
    assert places == sorted(places)


def test_two_documents_of_a_command_have_two_ids() -> None:
    page = html_page([section(closing="first"), section(closing="second")], "two")
    assert re.findall(r'<section class="document" id="([^"]+)"', page) == ["check", "check-2"]


def test_the_policy_allows_the_scripts_of_the_page() -> None:
    page = html_page([section(scripts=("check.js", "result_view.js"))], "scripts")
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page)
    assert policy is not None
    assert "default-src 'none'" in policy[1].replace("&#39;", "'")
    digests = {base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts(page)}
    assert set(re.findall(r"sha256-([^&']+)", policy[1])) == digests
    assert len(digests) == 5  # page, theme, check, result view, start


def test_the_chart_library_is_there_only_for_charts() -> None:
    plain, drawn = (
        html_page([section()], "plain"),
        html_page([section(blocks=[Chart(name="bars", label="Bars", draw=lambda: _CHART)])], "drawn"),
    )
    assert "vegaEmbed=" not in plain
    assert "window.vegaEmbed=" in drawn
    assert len(drawn) > len(plain) + 500_000


def test_a_script_of_two_sections_is_there_once() -> None:
    page = html_page([section(scripts=("check.js",)), section(scripts=("check.js",))], "two")
    assert page.count('samebits.section("check"') == 1


def test_nothing_is_fetched_from_elsewhere() -> None:
    page = html_page([section(styles=("check.css",), scripts=("check.js",))], "self-contained")
    assert re.findall(r"""(?:src|href)=["'](?!#|data:)""", page) == []
    assert "url(" not in page
    assert "@import" not in page


def test_few_documents_are_tabs_and_many_a_list() -> None:
    few = html_page([section(title=f"check {number}") for number in range(6)], "few")
    many = html_page([section(title=f"check {number}") for number in range(6)] + [section(state="failed")], "many")
    assert '<nav class="tabs"' in few and "all-documents" not in few.partition("<body>")[2].partition("<script>")[0]
    assert "7 documents: 1 failed, 6 passed" in many


def test_documents_of_one_title_name_their_files() -> None:
    page = html_page([section(source="a.json"), section(source="b.json"), section(title="list", source="c.json")], "p")
    nav = page.partition("<nav")[2].partition("</nav>")[0]
    assert "a.json" in nav and "b.json" in nav and "c.json" not in nav


# --- blocks ----------------------------------------------------------------------------------------------------------


def test_each_block_is_an_element_and_its_text_is_no_markup() -> None:
    table = Table(
        heads=("<name>", "count"),
        rows=[[Badge(text="bitwise", sign="="), "1"], ["<script>", "2"]],
        caption="Rows",
        bad=[1],
        right=["count"],
        details={1: Fold(title="evidence", blocks=[Lines(lines=[Line("<b>", "bad")])], open=True)},
    )
    chart = Chart(name="bars", label="Bars", draw=lambda: {"mark": "bar"})
    fold = Fold(title="More", blocks=[ValueList(rows=[("case", "small")]), CommandLine(text="samebits list")])
    page = Page(
        command="check",
        state="failed",
        closing="1 fails",
        failing=[Failing(title="norm")],
        blocks=[table, Beside(blocks=[chart]), fold],
    )
    section = Section(page=page)
    assert "<script>" not in section.body and "&lt;script&gt;" in section.body and "<b>" not in section.body
    assert '<tr class="o-fail"><td>&lt;script&gt;</td><td class="number">2</td>' in section.body.replace("\n", "")
    assert '<span class="badge v-bitwise">' in section.body
    assert "<details open><summary>evidence</summary>" in section.body
    assert section.body.count("samebits list") == 1 and "<dt>case</dt><dd>small</dd>" in section.body
    assert section.charts == {"bars": {"mark": "bar"}} and 'data-chart="bars"' in section.body
    assert (section.page.headline, section.page.state, section.title) == ("norm", "failed", "check")
    assert "1 fails" in section.body


# --- text is no markup -----------------------------------------------------------------------------------------------


STATIC = Path(samebits.report.html.sections.__file__).parent / "static"
HOSTILE = "</script><!--<script>alert(1)</script>\u2028\u2029&\"'"


def test_json_in_a_script_ends_nothing() -> None:
    text = str(script_json({"name": HOSTILE}))
    assert not {"<", ">", "&", "\u2028", "\u2029"} & set(text)
    assert json.loads(text) == {"name": HOSTILE}


def test_a_value_in_a_template_is_escaped() -> None:
    text = str(render("notebook.html.j2", title=HOSTILE, blocks=[Lines(lines=[HOSTILE])], styles=""))
    assert text.count("&lt;/script&gt;&lt;!--") == 2
    assert "<script" not in text


@pytest.mark.parametrize("name", [path.name for path in STATIC.glob("*.js")])
def test_a_script_of_ours_does_not_end_itself(name: str) -> None:
    text = static(name)
    assert text.startswith('"use strict";')
    assert "</script" not in text
    assert "<!--" not in text
    assert "innerHTML" not in text


def test_backticks_are_code_and_all_of_it_is_escaped() -> None:
    assert prose("has `x[::-1]`, not `<b>`") == "has <code>x[::-1]</code>, not <code>&lt;b&gt;</code>"
    assert prose("<script>`a` & one ` alone") == "&lt;script&gt;<code>a</code> &amp; one ` alone"
    assert prose("``") == "``" and prose(7) == "7"
    assert prose(Markup("<b>x</b>")) == "<b>x</b>", "what is markup already stays as it is"
