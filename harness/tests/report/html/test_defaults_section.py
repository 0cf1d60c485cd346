"""The section of two sources of defaults."""

from __future__ import annotations

from samebits.audit.defaults.compare import Agreement, Disagreement
from samebits.report.defaults import DefaultsDocument
from samebits.report.html.table_sections import defaults_section
from tests.support.hostile import require_escaped


def compared(*disagreements: Disagreement) -> DefaultsDocument:
    agreement = Agreement(keys=9, compared=7, ignored=("seed",), required=("model",), disagreements=disagreements)
    return DefaultsDocument(first="a.yml", second="b.yml", results=agreement)


RATE = Disagreement(key="learning_rate", kind="value", first="1e-3", second="3e-4")


def test_nothing_of_a_document_is_markup() -> None:
    require_escaped(compared(RATE, Disagreement(key="extra", kind="missing", first=None, second="1")))


def test_the_first_disagreement_is_the_headline() -> None:
    section = defaults_section(compared(RATE))
    assert section.state == "failed"
    assert section.headline == "1 disagreement of a.yml and b.yml; first 'learning_rate' (value): 1e-3 against 3e-4"
    assert "<td>learning_rate</td>" in section.body


def test_sources_that_agree_have_passed() -> None:
    section = defaults_section(compared())
    assert section.state == "passed"
    assert section.headline.endswith("all agree in name, type and value")
    assert "Ignored keys (1)" in section.body
