"""Each document at three widths and in both themes: the page fits, and axe-core finds nothing that shuts people out."""

import pytest

from samebits.report.html.sections import html_page, section_of
from samebits.report.train import TrainDocument
from tests.report.html.browser.conftest import Opener
from tests.report.html.browser.samples import SAMPLES, sample

WIDTHS = (375, 1280, 1920)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", SAMPLES)
def test_a_page_fits_and_is_accessible(name: str, opened: Opener) -> None:
    report = opened(html_page([section_of(sample(name))], name))
    page = report.page
    report.unfold()
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        report.charts_fit()
        assert report.width_beyond_window() <= 0, f"at {width} pixels the page scrolls sideways"
    assert report.grave_violations() == []
    page.emulate_media(color_scheme="dark")
    assert report.grave_violations("color-contrast") == [], "the themes differ in colours only"


def test_a_page_that_is_too_wide_is_found(opened: Opener) -> None:
    report = opened("<!doctype html><html lang=en><title>t</title><body><pre style='width: 500px'>x</pre>", width=375)
    assert report.width_beyond_window() > 100


def test_a_chart_that_stays_too_wide_is_found(opened: Opener) -> None:
    from playwright.sync_api import TimeoutError  # not installed everywhere: then the fixture has skipped

    report = opened("<section class=document><div class=plot style='width: 9px'><svg width=99></svg></div></section>")
    report.page.set_default_timeout(200)
    with pytest.raises(TimeoutError):
        report.charts_fit()
    report.page.set_default_timeout(30_000)  # which closing it may need on a busy machine


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("planted", "rule"),
    [
        ("<p style='color: #999; background: #aaa'>faint</p>", "color-contrast"),
        ("<button></button>", "button-name"),
        ("<img src='data:,'>", "image-alt"),
        ("<div style='overflow: auto; height: 20px'><p>long<p>long</div>", "scrollable-region-focusable"),
    ],
)
def test_what_shuts_people_out_is_found(planted: str, rule: str, opened: Opener) -> None:
    report = opened(f"<!doctype html><html lang=en><title>t</title><body><main><h1>t</h1>{planted}</main>")
    assert any(each.startswith(rule) for each in report.grave_violations())


def test_the_evidence_of_a_claim_is_in_the_window(opened: Opener) -> None:
    """Its table is wider than a narrow window; what unfolds in it is not."""
    report = opened(html_page([section_of(sample("claims"))], "claims"), width=375)
    report.unfold()
    for details in report.page.locator("tr.evidence details").all():
        box = details.bounding_box()
        assert box is not None and box["x"] >= 0 and box["x"] + box["width"] <= 375


def test_the_runs_of_a_training_are_named_at_their_distances(opened: Opener) -> None:
    document = sample("train")
    assert isinstance(document, TrainDocument)
    report = opened(html_page([section_of(document)], "train"))
    chart = report.page.locator('figure[data-chart="distance"]')
    chart.scroll_into_view_if_needed()
    report.charts_fit()
    key = chart.locator("svg .role-legend-label text").all_text_contents()
    assert set(key) >= {comparison.b for comparison in document.comparisons}
