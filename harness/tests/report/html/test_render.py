"""Values that reach a page are text: whatever a pair is called, it is no markup and ends no script."""

import json
from pathlib import Path

import pytest
from markupsafe import Markup

import samebits.report.html.sections
from samebits.report.html.sections import prose, render, script_json, static
from samebits.report.page import Lines

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
