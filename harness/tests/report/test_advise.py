"""The page of advice: what is bound by what it moves is named, and every figure has its source."""

import pytest

from samebits.report.html.charts import svg
from samebits.report.page import charts_of
from tests.support.charts import layer_rows
from tests.support.evidence_documents import advice, advised
from tests.support.hostile import require_escaped
from tests.support.pages import markdown, screen

BOUND = advice(axis="tensor", size=2, verdict="communication-bound", dimension="mlp", has=100, wants=400.0)
UNKNOWN = advice(axis="memory", verdict="unknown", needed=None, wants=None, block=None)


@pytest.mark.slow
def test_nothing_of_a_document_is_markup() -> None:
    require_escaped(advised(advice(), BOUND, UNKNOWN, exit_code=1))


def test_what_is_bound_by_communication_closes_the_page() -> None:
    document = advised(advice(), BOUND, exit_code=1)
    lines, text = screen(document), markdown(document)
    assert document.page().state == "failed"
    assert lines[-1] == (
        "llama on tpu7x, mesh fsdp16: 1 of 2 rules bound by what it moves; "
        "tensor 2 wants mlp above 400; llama has 100: communication-bound"
    )
    assert "tensor 2 wants mlp above 400; llama has 100: communication-bound" in lines
    assert text.startswith("### samebits audit advise: bound by what it moves\n")
    assert "| tensor 2 | 1 ICI axis |" in text and "| 100 | 400 | communication-bound |" in text


def test_a_missing_figure_is_incomplete() -> None:
    page = advised(advice(), UNKNOWN, exit_code=3).page()
    assert page.state == "incomplete"
    assert page.closing.endswith("1 of 2 rules unknown; memory: unknown, a figure of the chip is not published")
    assert "  HBM: not published" in screen(advised(advice(), UNKNOWN, exit_code=3))


def test_compute_bound_has_passed() -> None:
    page = advised(advice()).page()
    assert (page.state, page.next) == ("passed", None)
    assert page.closing == "llama on tpu7x, mesh fsdp16: all of it is compute-bound"


def test_the_chart_shows_how_far_each_is_from_enough() -> None:
    chart = charts_of(advised(advice(), BOUND, UNKNOWN, exit_code=1).page().blocks)["margins"]
    points = layer_rows(chart, 1)
    assert [row["parallelism"] for row in points] == ["fsdp 16", "tensor 2"], "what wants nothing known is not drawn"
    assert [row["times"] for row in points] == [16384 / 11535, 0.25]
    assert len(svg(chart)) > 1000
    assert charts_of(advised(UNKNOWN, exit_code=3).page().blocks) == {}
