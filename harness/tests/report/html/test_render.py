"""Values that reach a page are text: whatever a pair is called, it is no markup and ends no script."""

from __future__ import annotations

import json

import pytest

from samebits.report.html.render import render, script_json, static

HOSTILE = "</script><!--<script>alert(1)</script>\u2028\u2029&\"'"


def test_json_in_a_script_ends_nothing() -> None:
    text = str(script_json({"name": HOSTILE}))
    assert not {"<", ">", "&", "\u2028", "\u2029"} & set(text)
    assert json.loads(text) == {"name": HOSTILE}


def test_a_value_in_a_template_is_escaped() -> None:
    text = str(render("page.html.j2", title=HOSTILE, sections=[], styles=[], scripts=[], policy="", embedded={}))
    assert "&lt;/script&gt;&lt;!--" in text
    assert "alert(1)</script>" not in text


@pytest.mark.parametrize("name", ["page.js", "theme.js", "charts.js", "check.js", "result_view.js"])
def test_a_script_of_ours_does_not_end_itself(name: str) -> None:
    text = static(name)
    assert text.startswith('"use strict";')
    assert "</script" not in text
    assert "<!--" not in text
    assert "innerHTML" not in text
