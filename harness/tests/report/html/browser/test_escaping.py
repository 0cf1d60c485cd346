"""Names and values of users are text on every page: markup planted in every string of a document runs nowhere."""

import pytest

from samebits.report.html.sections import html_page, section_of
from tests.report.html.browser.conftest import Opener
from tests.report.html.browser.planting import PAYLOAD, Planting
from tests.report.html.browser.samples import SAMPLES, sample

TITLE = "</title><script>planted(0)</script>"


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", SAMPLES)
def test_markup_in_every_string_is_text(name: str, opened: Opener) -> None:
    planting = Planting()
    planted = planting.plant(sample(name))
    report = opened(html_page([section_of(planted)], TITLE))
    report.unfold()
    report.page.wait_for_timeout(100)
    assert report.scripts_from_text() == []
    assert report.page.title() == TITLE
    text = report.page.evaluate("document.querySelector('main').textContent")
    shown = [path for path, each in planting.texts.items() if each in text]
    assert "environment.versions.jax" in shown or "environment.versions.jax" not in planting.texts
    # Not all strings have a place on the page: digests and the bits of every step stay in the JSON document.
    assert len(shown) >= min(20, len(planting.texts) / 4), sorted(set(planting.texts) - set(shown))


@pytest.mark.parametrize("start", ["", "x' "])
def test_markup_that_is_not_escaped_is_found(start: str, opened: Opener) -> None:
    payload = start + PAYLOAD.format(n=7)
    report = opened(f"<!doctype html><title>t</title><p>{payload}</p><p title='{payload}'>")
    report.page.wait_for_function("window.ran.length > 0")
    found = report.scripts_from_text()
    assert "ran: 7" in found
    assert any(each.startswith("a href: javascript:") for each in found)
    assert any(each.startswith("img onerror") for each in found)
    report.problems.clear()


def test_every_string_of_a_record_is_planted() -> None:
    from tests.support.documents import different, document, result

    planting = Planting()
    planted = planting.plant(document(result(), different()))
    assert planted.results[1].comparison.witness is not None
    assert "<script>" in planted.results[1].place.pair and planted.results[0].place.pair == planted.pairs[0].pair
    assert "<script>" in planted.results[1].comparison.witness.reference_hex
    assert planted.results[1].ruling.verdict == "different", "one of a fixed set of words"
    assert "<script>" in (planted.environment.versions["jax"] or "")
    assert any("<script>" in key for key in planted.environment.versions)
