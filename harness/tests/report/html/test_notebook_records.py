"""Single records in a notebook: what a cell ends with shows itself, whatever it is, with everything escaped."""

import re

import numpy as np
import pytest

from samebits.numerics.bits import compare
from samebits.report.html.notebook import record_html
from samebits.schema.shown import Shown
from tests.report.html.run_samples import beside, side
from tests.support.documents import different, result
from tests.support.evidence_documents import proof, refuted

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
