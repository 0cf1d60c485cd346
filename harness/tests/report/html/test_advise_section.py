"""The section of advice: what is bound by what it moves first."""

from __future__ import annotations

import pytest

from samebits.report.html.advise_section import advise_section
from samebits.report.html.charts import svg
from tests.support.charts import layer_rows
from tests.support.evidence_documents import advice, advised
from tests.support.hostile import require_escaped

BOUND = advice(axis="tensor", size=2, verdict="communication-bound", dimension="mlp", has=100, wants=400.0)
UNKNOWN = advice(axis="memory", verdict="unknown", needed=None, wants=None, block=None)


@pytest.mark.slow
def test_nothing_of_a_document_is_markup() -> None:
    require_escaped(advised(advice(), BOUND, UNKNOWN, exit_code=1))


def test_what_is_bound_by_communication_is_the_headline() -> None:
    section = advise_section(advised(advice(), BOUND, exit_code=1))
    assert section.state == "failed"
    assert section.headline == (
        "llama on tpu7x, mesh fsdp16: 1 of 2 rules bound by what it moves; "
        "tensor 2 wants mlp above 400; llama has 100: communication-bound"
    )
    assert "✗ tensor 2 wants mlp above 400" in section.body


def test_a_missing_figure_is_incomplete() -> None:
    section = advise_section(advised(advice(), UNKNOWN, exit_code=3))
    assert section.state == "incomplete"
    assert section.headline.endswith("1 of 2 rules unknown; memory: unknown, a figure of the chip is not published")
    assert "HBM: not published" in section.body


def test_compute_bound_has_passed() -> None:
    section = advise_section(advised(advice()))
    assert (section.state, section.next_command) == ("passed", None)
    assert section.headline == "llama on tpu7x, mesh fsdp16: all of it is compute-bound"


def test_the_chart_shows_how_far_each_is_from_enough() -> None:
    chart = advise_section(advised(advice(), BOUND, UNKNOWN, exit_code=1)).charts["margins"]
    points = layer_rows(chart, 1)
    assert [row["parallelism"] for row in points] == ["fsdp 16", "tensor 2"], "what wants nothing known is not drawn"
    assert [row["times"] for row in points] == [16384 / 11535, 0.25]
    assert len(svg(chart)) > 1000
    assert advise_section(advised(UNKNOWN, exit_code=3)).charts == {}
