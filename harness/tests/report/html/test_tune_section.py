"""The section of tuned values: their figures as bars and as a table, the best one, and values with other results."""

from __future__ import annotations

from samebits.report.html.charts import svg
from samebits.report.html.sections import section_of
from samebits.report.html.tune_section import tune_section
from tests.report.html.run_samples import SCRIPT, trial, tuned_document


def test_the_figures_of_each_value_are_bars_and_cells() -> None:
    section = section_of(tuned_document(trial("128"), trial("256", optimal_seconds=2e-6)))
    picture = svg(section.charts["values-0"])
    for text in ("128 KB", "256 KB", "1.0 us", "2.0 us", "temporary memory", "estimated time"):
        assert text in picture, text
    assert (section.state, section.next_command) == ("passed", None)
    assert "best: 128: least optimal_seconds" in section.body and "<td>128</td>" in section.body


def test_a_value_with_other_results_is_the_headline() -> None:
    wrong = trial("256", equal=False, verdict="different", small="rows differ")
    section = tune_section(tuned_document(trial("128"), wrong))
    assert section.state == "failed"
    assert section.headline == ("1 of 2 trials with other results: tile=256 of matmul/tiled, forward: rows differ")
    assert "FAILS: 256 gives other results" in section.body


def test_a_rejected_value_has_no_bar_and_all_its_words() -> None:
    rejected = trial("512", program=None, refused="too large", temp_bytes=None, peak_bytes=None)
    section = tune_section(tuned_document(trial("128"), trial("256"), rejected))
    names = {row["side"] for row in section.charts["values-0"]["data"]["values"]}
    assert names == {"128", "256"}
    assert "<td>rejected</td>" in section.body and "<li>512 is rejected: too large</li>" in section.body


def test_one_program_of_all_values_has_no_bars_and_is_folded() -> None:
    section = tune_section(tuned_document(trial("128", program="p"), trial("256", program="p", same_as="128")))
    assert section.charts == {} and '<details class="block">' in section.body
    assert "all 2 values give the same program" in section.body


def test_a_value_that_was_not_run_is_incomplete() -> None:
    section = tune_section(tuned_document(trial("128"), trial("256", equal=None, verdict=None)))
    assert section.state == "incomplete"


def test_names_are_escaped() -> None:
    document = tuned_document(trial("128", pair=SCRIPT, side=SCRIPT, small=SCRIPT, equal=False))
    assert "<script" not in tune_section(document).body
