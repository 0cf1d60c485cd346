"""Comparisons in a notebook: signs and words, everything escaped, and no script."""

import re

from samebits.report.failure import LONGEST, LeafRow
from samebits.report.html.notebook import notebook_table

ROW = LeafRow("forward", "out['<b>']", "bitwise", "equal bits", True)


def test_names_and_messages_are_escaped() -> None:
    html = notebook_table("<script>", [ROW], ["<i>"], ["</pre><script>"])
    assert "<script" not in html
    assert "out[&#39;&lt;b&gt;&#39;]" in html
    assert html.count("</pre>") == 1


def test_what_fails_has_another_badge() -> None:
    html = notebook_table("t", [ROW, ROW._replace(verdict="different", ok=False)])
    assert re.findall(r'class="(badge[^"]+)"', html) == ["badge v-bitwise", "badge t-bad"]
    assert "≠" in html and "=</span> bitwise" in html


def test_a_word_that_is_no_verdict_is_shown_too() -> None:
    assert "other program" in notebook_table("t", [ROW._replace(verdict="other program", ok=False)])


def test_long_evidence_is_cut() -> None:
    html = notebook_table("t", [ROW._replace(evidence="x" * 500)])
    assert "x" * (LONGEST + 1) not in html


def test_every_style_stays_inside() -> None:
    styles = notebook_table("t", []).partition("<style>")[2].partition("</style>")[0]
    selectors = [part.strip() for rule in styles.split("}") if "{" in rule for part in rule.split("{")[0].split(",")]
    assert len(selectors) > 5
    assert all(selector.split()[0] == ".samebits-notebook" for selector in selectors)
