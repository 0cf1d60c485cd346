"""Comparisons in a notebook: signs and words, everything escaped, and no script."""

import re

import numpy as np
import pytest

from samebits.numerics.bits import compare
from samebits.report.failure import LONGEST, LeafRow
from samebits.report.html.notebook import notebook_table, record_html
from samebits.schema.shown import Shown
from tests.report.html.run_samples import beside, side
from tests.support.documents import different, result
from tests.support.evidence_documents import proof, refuted

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


# --- records ---------------------------------------------------------------------------------------------------------


EQUAL, UNEQUAL = compare(reference=(np.arange(3.0), np.zeros(2)), optimized=(np.arange(3.0), -np.zeros(2)))


def badges(html: str) -> list[str]:
    return re.findall(r'class="(badge[^"]+)"', html)


def test_a_result_shows_its_verdict_and_its_witness() -> None:
    html = different()._repr_html_()
    assert html is not None and badges(html) == ["badge t-bad"]
    assert "What fails, with witness and replay" in html and "replay" in html
    held = result()._repr_html_()
    assert held is not None and "What fails" not in held


def test_a_result_below_its_contract_says_what_is_required() -> None:
    html = str(result(verdict="bitwise", required="proved", ok=False)._repr_html_())
    assert badges(html) == ["badge t-bad"] and "required proved" in html


def test_a_proof_shows_its_argument() -> None:
    html = str(proof()._repr_html_())
    assert "assumes" in html and "these shapes" in html and badges(html) == ["badge v-rounding"]
    assert "<code>x[::-1]</code>" in str(refuted()._repr_html_())


def test_a_comparison_of_bits_shows_both_values() -> None:
    assert "all 3 elements have the same bits" in str(EQUAL._repr_html_())
    html = str(UNEQUAL._repr_html_())
    assert badges(html) == ["badge t-bad"]
    assert "0x80000000" in html or "0x8000000000000000" in html


def test_programs_show_their_figures() -> None:
    program, variant = side("gather"), side("slice")
    assert "temp MB" in str(program._repr_html_())
    assert "other program" in str(beside(variant, program)._repr_html_())


@pytest.mark.parametrize("record", [result(leaf="<script>", evidence="`<b>`"), proof(case="<script>"), UNEQUAL])
def test_names_are_escaped(record: Shown) -> None:
    assert "<script" not in record_html(record) and "<b>`" not in record_html(record)


def test_a_record_without_a_view_is_its_text() -> None:
    assert "object at" in record_html(Shown())
